/**
 * Removes a directory tree that a workload left behind, even read-only directories, without
 * following symbolic links.
 */
import { chmod, lstat, mkdir, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

const errorCode = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : '');
/** `rm` reports ENOTDIR for a file that it may not unlink. */
const permissionCodes = new Set(['EACCES', 'EPERM', 'ENOTDIR']);

/** Another process may remove the same file at the same time. */
function ignoreMissing(error: unknown): void {
  if (errorCode(error) !== 'ENOENT') throw error;
}

/**
 * Only root can delete the entries of a read-only directory, so this makes each directory writable
 * first if permitted. If removal still fails, the error names the file. Symbolic links do not count
 * as directories.
 */
async function makeWritableAndRemove(directory: string): Promise<void> {
  await chmod(directory, 0o700).catch(() => {});
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    await (entry.isDirectory() ? makeWritableAndRemove(path) : unlink(path)).catch(ignoreMissing);
  }
  await rmdir(directory);
}

export async function readKind(path: string): Promise<'absent' | 'directory' | 'other'> {
  try {
    return (await lstat(path)).isDirectory() ? 'directory' : 'other';
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return 'absent';
    throw error;
  }
}

export async function removeTree(path: string): Promise<void> {
  const kind = await readKind(path);
  if (kind === 'absent') return;
  if (kind === 'other') return unlink(path);
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (!permissionCodes.has(errorCode(error))) throw error;
    await makeWritableAndRemove(path).catch(ignoreMissing);
  }
}

/**
 * Replaces whatever is at `path` by an empty directory. Throws if something cannot be removed.
 */
export async function emptyDirectory(path: string): Promise<void> {
  // Following a link would delete files outside the tree.
  if ((await readKind(path)) === 'other') await unlink(path);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
  for (const name of await readdir(path)) await removeTree(join(path, name));
}
