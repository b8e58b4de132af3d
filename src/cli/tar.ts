/** An archive of small files as every `tar` reads it (POSIX ustar), packed by gzip. */
import { gzipSync } from 'node:zlib';

export interface Entry {
  /** Plain, with slashes; at most 100 bytes. */
  name: string;
  body: Buffer;
}

const block = 512;
const checksumAt = 148;
const blankChecksum = '        ';

const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`;

function header({ name, body }: Entry, at_seconds: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`the name ${name} is too long for an archive`);
  const bytes = Buffer.alloc(block);
  let offset = 0;
  const put = (text: string, width: number) => {
    bytes.write(text, offset, width, 'utf8');
    offset += width;
  };
  put(name, 100);
  put(octal(0o600, 8), 8);
  // Whoever unpacks it owns it; whoever packed it is nobody's business.
  put(octal(0, 8), 8);
  put(octal(0, 8), 8);
  put(octal(body.length, 12), 12);
  put(octal(at_seconds, 12), 12);
  put(blankChecksum, 8);
  put('0', 1);
  put('', 100);
  put('ustar\0', 6);
  put('00', 2);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, checksumAt, 8, 'latin1');
  return bytes;
}

const padding = (length: number) => Buffer.alloc((block - (length % block)) % block);

export function packed(entries: readonly Entry[], at: Date): Buffer {
  const at_seconds = Math.floor(at.getTime() / 1000);
  const blocks = entries.flatMap((entry) => [header(entry, at_seconds), entry.body, padding(entry.body.length)]);
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * block)]));
}
