/** The rows of a segment in packed form, and the hash chain over them. */
import { createHash } from 'node:crypto';
import { microseconds, type RowText, rowHash } from './row-hash.ts';

export interface Entry {
  xid: bigint;
  seq: bigint;
  /** Microseconds since 1970. */
  at: bigint;
  hash: Buffer;
}

export const entryBytes = 56;
const hashBytes = 32;

/** The head of an empty chain. */
export const emptyHead = '0'.repeat(2 * hashBytes);

export const entryOf = (row: RowText): Entry => ({
  xid: BigInt(row.xid),
  seq: BigInt(row.seq),
  at: microseconds(row.at),
  hash: rowHash(row),
});

export const cursorOf = ({ xid, seq }: Pick<Entry, 'xid' | 'seq'>): string => `${xid}-${seq}`;

export function packEntries(entries: readonly Entry[]): Buffer {
  const packed = Buffer.alloc(entries.length * entryBytes);
  entries.forEach((entry, index) => {
    const start = index * entryBytes;
    packed.writeBigUInt64BE(entry.xid, start);
    packed.writeBigInt64BE(entry.seq, start + 8);
    packed.writeBigInt64BE(entry.at, start + 16);
    entry.hash.copy(packed, start + 24);
  });
  return packed;
}

/** Returns undefined if the length is not a multiple of an entry. */
export function unpackEntries(packed: Buffer): Entry[] | undefined {
  if (packed.length % entryBytes !== 0) return undefined;
  return Array.from({ length: packed.length / entryBytes }, (_, index) => {
    const start = index * entryBytes;
    return {
      xid: packed.readBigUInt64BE(start),
      seq: packed.readBigInt64BE(start + 8),
      at: packed.readBigInt64BE(start + 16),
      hash: packed.subarray(start + 24, start + entryBytes),
    };
  });
}

/** Returns the head after these entries: each link hashes the previous link and the entry. */
export function chainHead(from: string, packed: Buffer): string {
  let link: Buffer = Buffer.from(from, 'hex');
  for (let start = 0; start < packed.length; start += entryBytes) {
    link = createHash('sha256')
      .update(link)
      .update(packed.subarray(start, start + entryBytes))
      .digest();
  }
  return link.toString('hex');
}
