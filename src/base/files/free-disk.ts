/** Reads how much of a disk is free. */
import { statfs } from 'node:fs/promises';

/**
 * The bytes that a program without special rights may still write on the disk of this path; null if
 * the path cannot be read.
 */
export async function freeDiskBytes(path: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  } catch {
    return null;
  }
}
