/**
 * Reads and writes small files in a node's directory. The workload can write there too, so this
 * code does not follow symbolic links, block on pipes or trust sizes, and writes atomically.
 */
import { randomBytes } from 'node:crypto';
import { constants, type FileHandle, open, rename, rm, writeFile } from 'node:fs/promises';
import { errorCode } from '../host-failure.ts';

const safeFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const missingCodes = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

async function openSafely(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, safeFlags);
  } catch (error) {
    if (missingCodes.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

/** Reads the last `max_bytes` of a regular file; null if there is no such file. */
export async function readTail(path: string, max_bytes: number): Promise<string | null> {
  const file = await openSafely(path);
  if (!file) return null;
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return null;
    const length = Math.min(stats.size, max_bytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, stats.size - length);
    return buffer.subarray(0, bytesRead).toString('utf8');
  } finally {
    await file.close();
  }
}

const max_record_bytes = 65_536;

/** Reads a JSON object; null if the file is missing or incomplete after a crash. */
export async function readRecord(path: string): Promise<Record<string, unknown> | null> {
  const text = await readTail(path, max_record_bytes);
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export async function writeAtomically(path: string, text: string, mode = 0o600): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}.draft`;
  try {
    await writeFile(draft, text, { flag: 'wx', mode });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

export const writeRecord = (path: string, record: object) =>
  writeAtomically(path, `${JSON.stringify(record, null, 2)}\n`);
