/** Random hex digits for names that are no secrets. Drawn in advance: asking for a few bytes at a time costs more than they do. */
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
