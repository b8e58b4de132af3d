/**
 * Numbers as the database takes an array of them in its own form. As text each would be written, kept for a while in case it is written again, and read:
 * for thousands of beats a second the writing alone leaves a megabyte a second behind.
 */
const float8 = 701;
const headerBytes = 20;
const elementBytes = 12;

export function float8Array(values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(headerBytes + elementBytes * values.length);
  // One dimension, nothing that is null, what it is made of, how many there are, and that the first is number one.
  let at = 0;
  for (const word of [1, 0, float8, values.length, 1]) at = bytes.writeInt32BE(word, at);
  for (const value of values) {
    bytes.writeInt32BE(8, at);
    bytes.writeDoubleBE(value, at + 4);
    at += elementBytes;
  }
  return bytes;
}
