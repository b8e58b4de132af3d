/**
 * Packs and unpacks log chunks. A chunk contains lines of one instance as compressed NDJSON, in the
 * order of their numbers.
 */
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import type { ShippedLine } from '../../contract/agent/agent.ts';

export interface Chunk {
  first_seq: number;
  last_seq: number;
  last_at: string;
  lines: number;
  raw_bytes: number;
  packing: Packing;
  content: Buffer;
}

export type Packing = 'zstd' | 'none';

export interface PackedContent {
  packing: Packing;
  content: Buffer;
}

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Below this size, compression makes the content longer as often as shorter. */
const minCompressedBytes = 256;

export async function packLines(lines: readonly ShippedLine[]): Promise<Chunk> {
  const [first] = lines;
  const last = lines.at(-1);
  if (!first || !last) throw new Error('a chunk has at least one line');
  const text = lines.map((line) => JSON.stringify(line)).join('\n');
  const raw = Buffer.from(text);
  const packing = raw.length < minCompressedBytes ? 'none' : 'zstd';
  return {
    first_seq: first.seq,
    last_seq: last.seq,
    last_at: lines.reduce((latest, { at }) => (at > latest ? at : latest), first.at),
    lines: lines.length,
    raw_bytes: raw.length,
    packing,
    content: packing === 'zstd' ? await compress(raw) : raw,
  };
}

/** Returns the record of each line unparsed, because most readers discard most lines. */
export async function unpackRecords({ packing, content }: PackedContent): Promise<string[]> {
  const raw = packing === 'zstd' ? await decompress(content) : content;
  return raw.toString('utf8').split('\n');
}

export const parseLine = (record: string): ShippedLine => JSON.parse(record) as ShippedLine;

const utcMilliseconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d\.\d{3}Z$/;

/** Normalizes a time to UTC milliseconds, so that times sort as text. */
export function toUtc(at: string): string {
  if (utcMilliseconds.test(at)) return at;
  // JavaScript cannot parse leap seconds.
  return new Date(at.toUpperCase().replace(/:60(?=[.Z+-])/, ':59')).toISOString();
}

/** Sorts lines by number, and removes later lines with the same number. */
export function sortLines(lines: readonly ShippedLine[]): readonly ShippedLine[] {
  const isOrdered = lines.every((line, place) => place === 0 || line.seq > (lines[place - 1]?.seq ?? 0));
  if (isOrdered) return lines;
  const sorted = lines.toSorted((a, b) => a.seq - b.seq);
  return sorted.filter((line, place) => line.seq !== sorted[place - 1]?.seq);
}
