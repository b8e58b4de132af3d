/**
 * A host that refuses: a directory that cannot be deleted, a disk that is full. Done for real wherever this user may: root by
 * a file's immutable flag and by a small file system of its own, anybody else by the mode of the directory above. What
 * cannot be had here is said, and the caller then simulates it and says that.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, open, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** Asked when it matters: a test may have become a plain user meanwhile. */
const isRoot = () => process.getuid?.() === 0;

async function may(program: string, ...args: string[]): Promise<boolean> {
  try {
    await run(program, args);
    return true;
  } catch (error) {
    console.log(`here ${program} ${args.join(' ')} is not possible: ${error instanceof Error ? error.message : error}`);
    return false;
  }
}

export interface Obstacle {
  how: string;
  remove(): Promise<void>;
}

/** From now on nobody deletes this directory, its owner included. Undefined where nothing here can bring that about. */
export async function makeUndeletable(directory: string): Promise<Obstacle | undefined> {
  if (!isRoot()) {
    const above = dirname(directory);
    await chmod(above, 0o500);
    return { how: 'the directory above forbids it', remove: () => chmod(above, 0o700) };
  }
  const file = join(directory, 'work', 'cannot-be-deleted');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, '');
  if (await may('chattr', '+i', file))
    return { how: 'a file in it is immutable', remove: () => run('chattr', ['-i', file]).then(() => {}) };
  const place = join(directory, 'work', 'mounted');
  await mkdir(place);
  if (await may('mount', '-t', 'tmpfs', 'tmpfs', place))
    return { how: 'a file system is mounted in it', remove: () => run('umount', [place]).then(() => {}) };
  return undefined;
}

/** Gives a directory a disk of its own, of so many kilobytes. */
export async function mountSmallDisk(directory: string, kilobytes: number): Promise<Obstacle | undefined> {
  await mkdir(directory, { recursive: true });
  if (!isRoot() || !(await may('mount', '-t', 'tmpfs', '-o', `size=${kilobytes}k,mode=700`, 'tmpfs', directory)))
    return undefined;
  return { how: `a disk of ${kilobytes} kB`, remove: () => run('umount', ['-l', directory]).then(() => {}) };
}

/** Writes until nothing more fits. */
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
