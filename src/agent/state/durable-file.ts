/** Writes files atomically: if the writer is killed, the file is either complete or unchanged. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from './shape.ts';

/** Some files hold secrets, so only the owner can read them. */
const privateMode = 0o600;

/** Survives a kill of this process, but not a power cut. For data that can be recreated. */
export function writeAtomically(path: string, text: string): void {
  const newPath = `${path}.new`;
  writeFileSync(newPath, text, { mode: privateMode });
  renameSync(newPath, path);
}

/** Survives a power cut too. Waits for the disk twice. */
export function writeDurably(path: string, text: string): void {
  const newPath = `${path}.new`;
  const file = openSync(newPath, 'w', privateMode);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(newPath, path);
  syncDirectory(dirname(path));
}

/** A new file name survives a power cut only after its directory was synced. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Returns null if the file does not exist, or is not JSON because another program wrote it. */
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
