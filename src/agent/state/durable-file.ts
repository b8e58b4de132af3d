/** Files that are either whole or as they were before, whatever kills the writer. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from './shape.ts';

/** Secrets are among what is written, so nobody but the owner reads any of it. */
const privateMode = 0o600;

/** Whole whatever kills this process; a power cut may take it. For what can be made again. */
export function writeWhole(path: string, text: string): void {
  const fresh = `${path}.new`;
  writeFileSync(fresh, text, { mode: privateMode });
  renameSync(fresh, path);
}

/** Whole also after a power cut. Costs two waits for the disk. */
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

/** A new name is only durable once its directory is. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** The parsed file; null where there is none, or where it is not JSON (then its writer was not us). */
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
