/** Writes files atomically: whatever kills the writer, a file is either complete or unchanged. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from './shape.ts';

/** Some files hold secrets, so only the owner can read any of them. */
const privateMode = 0o600;

/** Atomic if this process is killed; a power cut may lose it. For data that can be recreated. */
export function writeAtomically(path: string, text: string): void {
  const fresh = `${path}.new`;
  writeFileSync(fresh, text, { mode: privateMode });
  renameSync(fresh, path);
}

/** Atomic also after a power cut. Waits for the disk twice. */
export function writeDurably(path: string, text: string): void {
  const fresh = `${path}.new`;
  const file = openSync(fresh, 'w', privateMode);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, path);
  syncDirectory(dirname(path));
}

/** A new name is durable only once its directory is. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** The parsed file; null if there is none, or if it is not JSON and so not written by us. */
export function readJsonFile(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
