/**
 * Returns random hex digits for names that are not secret. They come from a buffer, since many
 * small random draws cost more than a large one.
 */
import { randomFillSync } from 'node:crypto';

const buffer = Buffer.alloc(8192);
let used = buffer.length;

export function randomHex(bytes: number): string {
  if (used + bytes > buffer.length) {
    randomFillSync(buffer);
    used = 0;
  }
  used += bytes;
  return buffer.toString('hex', used - bytes, used);
}
