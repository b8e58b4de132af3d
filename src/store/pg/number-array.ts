/**
 * Encodes a float8[] parameter in PostgreSQL's binary format. As text, thousands of heartbeats per
 * second would leave a megabyte of strings per second to the garbage collector.
 */
const float8 = 701;
const headerBytes = 20;
const elementBytes = 12;

export function float8Array(values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(headerBytes + elementBytes * values.length);
  // Dimensions, null flag, element type, length, lower bound.
  let at = 0;
  for (const word of [1, 0, float8, values.length, 1]) at = bytes.writeInt32BE(word, at);
  for (const value of values) {
    bytes.writeInt32BE(8, at);
    bytes.writeDoubleBE(value, at + 4);
    at += elementBytes;
  }
  return bytes;
}
