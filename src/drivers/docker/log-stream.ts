/** Decodes a container's output: frames (stream, length, bytes) unless it has a terminal. */
const frameHead = 8;
const isFramed = (bytes: Buffer) => bytes.length >= frameHead && (bytes[0] ?? 3) <= 2 && bytes.readUIntBE(1, 3) === 0;

export function linesOf(bytes: Buffer): string {
  if (!isFramed(bytes)) return bytes.toString('utf8');
  const parts: Buffer[] = [];
  for (let at = 0; at + frameHead <= bytes.length; ) {
    const length = bytes.readUInt32BE(at + 4);
    parts.push(bytes.subarray(at + frameHead, at + frameHead + length));
    at += frameHead + length;
  }
  return Buffer.concat(parts).toString('utf8');
}
