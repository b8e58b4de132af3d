/**
 * Returns random hex digits for names that are not secret. They come from a buffer, since many
 * small random draws cost more than a large one.
 */
import { randomFillSync } from 'node:crypto';

const buffer = Buffer.alloc(8192);
let usedBytes = buffer.length;

export function randomHex(bytes: number): string {
  if (usedBytes + bytes > buffer.length) {
    randomFillSync(buffer);
    usedBytes = 0;
  }
  usedBytes += bytes;
  return buffer.toString('hex', usedBytes - bytes, usedBytes);
}
