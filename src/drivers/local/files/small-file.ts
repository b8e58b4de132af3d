/**
 * Small files in a node's directory, which the workload can write to as well. So nothing here
 * follows a symbolic link, blocks on a pipe or trusts a size, and writes are atomic.
 */
import { randomBytes } from 'node:crypto';
import { constants, type FileHandle, open, rename, rm, writeFile } from 'node:fs/promises';
import { errorCode } from '../host-failure.ts';

const harmless = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const notThere = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

async function openHarmless(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, harmless);
  } catch (error) {
    if (notThere.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

/** The last `max_bytes` of a regular file; null if there is none. */
export async function tailOf(path: string, max_bytes: number): Promise<string | null> {
  const file = await openHarmless(path);
  if (!file) return null;
  try {
    const about = await file.stat();
    if (!about.isFile()) return null;
    const length = Math.min(about.size, max_bytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, about.size - length);
    return buffer.subarray(0, bytesRead).toString('utf8');
  } finally {
    await file.close();
  }
}

const max_record_bytes = 65_536;

/** A JSON object; null if it is missing or was cut short by a crash. */
export async function readRecord(path: string): Promise<Record<string, unknown> | null> {
  const text = await tailOf(path, max_record_bytes);
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
