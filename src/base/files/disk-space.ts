/** Reads the size of a disk and how much of it is free. */
import { statfs } from 'node:fs/promises';

export interface DiskSpace {
  /** The bytes that a program without special rights may still write. */
  free_bytes: number;
  total_bytes: number;
}

/** Null if the path cannot be read. */
export async function readDiskSpace(path: string): Promise<DiskSpace | null> {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return { free_bytes: bavail * bsize, total_bytes: blocks * bsize };
  } catch {
    return null;
  }
}
