/**
 * Writes small tar archives (POSIX ustar), plain or gzipped, and reads the first file of an
 * archive.
 */
import { gzipSync } from 'node:zlib';

export interface Entry {
  /** A path with slashes, of at most 100 bytes. */
  name: string;
  body: Buffer;
  /** The name of a directory ends in a slash; its body is empty. */
  directory?: boolean;
  mode?: number;
  owner?: { uid: number; gid: number };
}

const blockBytes = 512;
const checksumAt = 148;
const blankChecksum = '        ';

const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`;

function header({ name, body, directory = false, mode = 0o600, owner }: Entry, at_seconds: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`the name ${name} is too long for an archive`);
  const bytes = Buffer.alloc(blockBytes);
  let offset = 0;
  const put = (text: string, width: number) => {
    bytes.write(text, offset, width, 'utf8');
    offset += width;
  };
  put(name, 100);
  put(octal(mode, 8), 8);
  // Without an owner, the files belong to the user who unpacks them. The user who packs them is
  // never recorded.
  put(octal(owner?.uid ?? 0, 8), 8);
  put(octal(owner?.gid ?? 0, 8), 8);
  put(octal(body.length, 12), 12);
  put(octal(at_seconds, 12), 12);
  put(blankChecksum, 8);
  put(directory ? '5' : '0', 1);
  put('', 100);
  put('ustar\0', 6);
  put('00', 2);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, checksumAt, 8, 'latin1');
  return bytes;
}

const padding = (length: number) => Buffer.alloc((blockBytes - (length % blockBytes)) % blockBytes);

export function createTar(entries: readonly Entry[], at: Date): Buffer {
  const at_seconds = Math.floor(at.getTime() / 1000);
  const blocks = entries.flatMap((entry) => [header(entry, at_seconds), entry.body, padding(entry.body.length)]);
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)]);
}

export const createTarGz = (entries: readonly Entry[], at: Date): Buffer => gzipSync(createTar(entries, at));

const sizeAt = 124;
const kindAt = 156;
const plainFile = ['0', '\0'];

/**
 * Returns the first regular file of an archive, skipping extended headers (long names, finer
 * times).
 */
export function firstFile(archive: Buffer): Buffer | null {
  for (let at = 0; at + blockBytes <= archive.length && archive[at] !== 0; ) {
    const size = Number.parseInt(archive.toString('latin1', at + sizeAt, at + sizeAt + 12), 8) || 0;
    const bodyAt = at + blockBytes;
    if (plainFile.includes(archive.toString('latin1', at + kindAt, at + kindAt + 1)))
      return archive.subarray(bodyAt, bodyAt + size);
    at = bodyAt + Math.ceil(size / blockBytes) * blockBytes;
  }
  return null;
}
