/**
 * Encodes a float8[] parameter in PostgreSQL's binary format. As text, thousands of heartbeats per
 * second would leave a megabyte of strings per second to the garbage collector.
 */
const float8Oid = 701;
const headerBytes = 20;
const lengthBytes = 4;
const float8Bytes = 8;
const elementBytes = lengthBytes + float8Bytes;

export function encodeFloat8Array(values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(headerBytes + elementBytes * values.length);
  // Dimensions, null flag, element type, length, lower bound.
  let at = 0;
  for (const word of [1, 0, float8Oid, values.length, 1]) at = bytes.writeInt32BE(word, at);
  for (const value of values) {
    bytes.writeInt32BE(float8Bytes, at);
    bytes.writeDoubleBE(value, at + lengthBytes);
    at += elementBytes;
  }
  return bytes;
}
