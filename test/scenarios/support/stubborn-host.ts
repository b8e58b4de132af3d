/**
 * Makes the host refuse requests: an undeletable directory, a full disk. Root uses the immutable
 * flag and a small mounted file system, other users the mode of the parent directory. Returns
 * undefined where neither works. The caller then simulates the fault and logs that.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, open, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** Evaluated on each call, because a test may drop root meanwhile. */
const isRoot = () => process.getuid?.() === 0;

async function succeeds(program: string, ...args: string[]): Promise<boolean> {
  try {
    await run(program, args);
    return true;
  } catch (error) {
    console.log(
      `${program} ${args.join(' ')} is not possible on this host: ${error instanceof Error ? error.message : error}`,
    );
    return false;
  }
}

export interface Obstacle {
  how: string;
  remove(): Promise<void>;
}

/**
 * Makes a directory undeletable even for its owner, or returns undefined where that is impossible.
 */
export async function makeUndeletable(directory: string): Promise<Obstacle | undefined> {
  if (!isRoot()) {
    const above = dirname(directory);
    await chmod(above, 0o500);
    return { how: 'the parent directory forbids it', remove: () => chmod(above, 0o700) };
  }
  const file = join(directory, 'work', 'cannot-be-deleted');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, '');
  if (await succeeds('chattr', '+i', file))
    return { how: 'a file in it is immutable', remove: () => run('chattr', ['-i', file]).then(() => {}) };
  const place = join(directory, 'work', 'mounted');
  await mkdir(place);
  if (await succeeds('mount', '-t', 'tmpfs', 'tmpfs', place))
    return { how: 'a file system is mounted in it', remove: () => run('umount', [place]).then(() => {}) };
  return undefined;
}

/** Mounts a file system of the given size on a directory. */
export async function mountSmallDisk(directory: string, kilobytes: number): Promise<Obstacle | undefined> {
  await mkdir(directory, { recursive: true });
  if (!isRoot() || !(await succeeds('mount', '-t', 'tmpfs', '-o', `size=${kilobytes}k,mode=700`, 'tmpfs', directory)))
    return undefined;
  return { how: `a disk of ${kilobytes} kB`, remove: () => run('umount', ['-l', directory]).then(() => {}) };
}

/** Writes until the disk is full. */
export async function fillDisk(directory: string): Promise<Obstacle> {
  const file = join(directory, 'filler');
  const handle = await open(file, 'w');
  const remove = () => rm(file, { force: true });
  for (const size of [64 * 1024, 4096, 1]) {
    try {
      for (;;) if ((await handle.write(Buffer.alloc(size))).bytesWritten < size) break;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
    }
  }
  await handle.close();
  return { how: 'the disk is full', remove };
}
