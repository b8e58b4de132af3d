/** Removes a directory tree that a workload has left, whatever modes it set, and never anything a symbolic link points to. */
import { chmod, lstat, mkdir, readdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';

const errorCode = (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : '');
const closed = new Set(['EACCES', 'EPERM']);

/** Directories that forbid writing keep their entries undeletable for anybody but root. Links are not directories here. */
async function openUp(directory: string): Promise<void> {
  await chmod(directory, 0o700);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(join(directory, entry.name));
  }
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
    await openUp(path);
    await rm(path, { recursive: true, force: true });
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
