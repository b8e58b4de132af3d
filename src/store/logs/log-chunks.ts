/** What a chunk of a log holds: lines of one instance as NDJSON, in the order of their numbers, compressed. */
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

/** Below this, compressing makes it longer as often as shorter. */
const leastToCompress = 256;

export async function packLines(lines: readonly ShippedLine[]): Promise<Chunk> {
  const [first] = lines;
  const last = lines.at(-1);
  if (!first || !last) throw new Error('a chunk has at least one line');
  const text = lines.map((line) => JSON.stringify(line)).join('\n');
  const raw = Buffer.from(text);
  const packing = raw.length < leastToCompress ? 'none' : 'zstd';
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

/** One record for each line, still written out: most readers throw most of them away. */
export async function recordsOf({ packing, content }: PackedContent): Promise<string[]> {
  const raw = packing === 'zstd' ? await decompress(content) : content;
  return raw.toString('utf8').split('\n');
}

export const lineOf = (record: string): ShippedLine => JSON.parse(record) as ShippedLine;

const written = /^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d\.\d{3}Z$/;

/** As everything here is written: UTC, to the millisecond, so that texts compare as their times do. */
export function inUtc(at: string): string {
  if (written.test(at)) return at;
  // A leap second is a second to the sender only.
  return new Date(at.toUpperCase().replace(/:60(?=[.Z+-])/, ':59')).toISOString();
}

/** In order, each number once: the first of equal ones counts. */
export function inOrder(lines: readonly ShippedLine[]): readonly ShippedLine[] {
  const isOrdered = lines.every((line, place) => place === 0 || line.seq > (lines[place - 1]?.seq ?? 0));
  if (isOrdered) return lines;
  const sorted = lines.toSorted((a, b) => a.seq - b.seq);
  return sorted.filter((line, place) => line.seq !== sorted[place - 1]?.seq);
}
