/** Removes a directory tree that a workload has left, whatever modes it set, and never anything a symbolic link points to. */
import { chmod, lstat, mkdir, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

const errorCode = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : '');
/** `rm` takes a file that it may not unlink for a directory, and says so instead. */
const closed = new Set(['EACCES', 'EPERM', 'ENOTDIR']);

/** Somebody else may remove it at the same time. */
function unlessGone(error: unknown): void {
  if (errorCode(error) !== 'ENOENT') throw error;
}

/**
 * Directories that forbid writing keep their entries undeletable for anybody but root, so each is opened first where we may; what
 * cannot be removed all the same is told by the call that was refused. Links are not directories here.
 */
async function removeOpened(directory: string): Promise<void> {
  await chmod(directory, 0o700).catch(() => {});
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    await (entry.isDirectory() ? removeOpened(path) : unlink(path)).catch(unlessGone);
  }
  await rmdir(directory);
}

export async function kindOf(path: string): Promise<'absent' | 'directory' | 'other'> {
  try {
    return (await lstat(path)).isDirectory() ? 'directory' : 'other';
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return 'absent';
    throw error;
  }
}

export async function removeTree(path: string): Promise<void> {
  const kind = await kindOf(path);
  if (kind === 'absent') return;
  if (kind === 'other') return unlink(path);
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (!closed.has(errorCode(error))) throw error;
    await removeOpened(path).catch(unlessGone);
  }
}

/** Leaves an empty directory there, whatever was; throws where something cannot be removed. */
export async function emptyDirectory(path: string): Promise<void> {
  // A link in its place would lead to somebody else's files.
  if ((await kindOf(path)) === 'other') await unlink(path);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
  for (const name of await readdir(path)) await removeTree(join(path, name));
}
