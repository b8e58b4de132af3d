/**
 * Random hex digits for names that are not secret, from a buffer: many small draws cost more than
 * one large one.
 */
import { randomFillSync } from 'node:crypto';

const drawn = Buffer.alloc(8192);
let used = drawn.length;

export function randomHex(bytes: number): string {
  if (used + bytes > drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += bytes;
  return drawn.toString('hex', used - bytes, used);
}
