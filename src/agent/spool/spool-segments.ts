/**
 * The files of the spool. A segment holds consecutive lines and is named after the number of its
 * first line. A gap file holds one line that says how many lines were dropped. A segment ends
 * where the next file begins.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync, truncateSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { isLossRecord, lossLine } from './loss-record.ts';

interface RepairOptions {
  /** The number in the file's name. */
  first: number;
  /**
   * The number in the next file's name, where this file must end. Null for the last file and for a
   * gap file: their end is not known from names.
   */
  following: number | null;
  /** Lines up to this number are not lost: the server has them, or they were skipped. */
  acknowledged: number;
  at: string;
}

interface SpoolRecord {
  seq: number;
  /** A loss record explains the missing numbers before it. */
  isLoss: boolean;
}

/** Returns null for an incomplete or damaged record. */
function readRecord(record: string): SpoolRecord | null {
  try {
    const value: unknown = JSON.parse(record);
    if (!isFields(value) || typeof value.line !== 'string' || typeof value.stream !== 'string') return null;
    if (!Number.isSafeInteger(value.seq) || !record.startsWith(`{"seq":${value.seq},`)) return null;
    return { seq: Number(value.seq), isLoss: isLossRecord(value.stream, value.line) };
  } catch {
    // An unreadable record counts as lost.
    return null;
  }
}

const damageLine = (count: number | null) => lossLine(count, "the spool on the machine's disk was damaged");

/**
 * Repairs a spool file that a power cut, a full disk or a person damaged, so that the agent can
 * start and ship. Keeps readable lines and replaces the others by loss records. Returns the number
 * of the last line, or null if there is none.
 */
function repairSegment(path: string, { first, following, acknowledged, at }: RepairOptions): number | null {
  const content = readFileSync(path);
  const wholeBytes = content.lastIndexOf(0x0a) + 1;
  const records = content.toString('utf8', 0, wholeBytes).split('\n').slice(0, -1);
  const repairedRecords: string[] = [];
  let last = first - 1;
  let isDamaged = false;
  const addLossRecord = (seq: number, count: number | null) => {
    repairedRecords.push(JSON.stringify({ seq, at, stream: 'agent', line: damageLine(count) }));
    last = seq;
  };
  let isUnreadable = false;
  for (const record of records) {
    const parsed = readRecord(record);
    if (parsed === null || parsed.seq <= last || (following !== null && parsed.seq >= following)) {
      isDamaged = true;
      isUnreadable = true;
      continue;
    }
    // Numbers can be missing although every record is readable: damage that overwrites line ends
    // can merge several lines into one that still parses.
    const lost = parsed.seq - Math.max(last, acknowledged) - 1;
    if (lost > 0 && (isUnreadable || !parsed.isLoss)) {
      isDamaged = true;
      addLossRecord(parsed.seq - 1, lost);
    }
    isUnreadable = false;
    repairedRecords.push(record);
    last = parsed.seq;
  }
  const lost = following === null ? 0 : following - last - 1;
  if (lost > 0 && following !== null) addLossRecord(following - 1, lost);
  else if (isUnreadable && following === null) addLossRecord(last + 1, null);
  if (isDamaged || lost > 0) writeAtomically(path, `${repairedRecords.join('\n')}\n`);
  // A line that was only partly written counts as never written.
  else if (wholeBytes < content.length) truncateSync(path, wholeBytes);
  return last < first ? null : last;
}

export interface Segment {
  path: string;
  first: number;
  bytes: number;
  /** Whether the file replaces dropped lines. */
  isGap: boolean;
}

const fileNamePattern = /^(\d{16})\.(lines|gap)$/;

export const segmentPath = (directory: string, first: number, kind: 'lines' | 'gap' = 'lines') =>
  join(directory, `${String(first).padStart(16, '0')}.${kind}`);

export interface SegmentList {
  segments: Segment[];
  /** The number of the next line. */
  next_seq: number;
}

/**
 * Reads and repairs all files of the spool. Removes files whose lines a gap file already counts as
 * dropped, which a crash can leave behind.
 */
export function loadSegments(directory: string, acknowledged: number, at: string): SegmentList {
  const segments: Segment[] = [];
  let next_seq = 1;
  const files = readdirSync(directory).filter((file) => fileNamePattern.test(file));
  const firstSeqs = files.sort().map((file) => Number.parseInt(file, 10));
  for (const [index, file] of files.entries()) {
    const path = join(directory, file);
    const first = firstSeqs[index] ?? 0;
    if (first < next_seq) {
      unlinkSync(path);
      continue;
    }
    const isGap = file.endsWith('.gap');
    // After a crash, the next file may be one that this gap replaces, so its name does not bound
    // the gap.
    const following = isGap ? null : (firstSeqs.find((other) => other > first) ?? null);
    const last_seq = repairSegment(path, { first, following, acknowledged, at });
    segments.push({ path, first, bytes: statSync(path).size, isGap });
    next_seq = (last_seq ?? first - 1) + 1;
  }
  return { segments, next_seq };
}

export function readPart(path: string, from: number, to: number): Buffer {
  const part = Buffer.alloc(Math.max(0, to - from));
  const file = openSync(path, 'r');
  try {
    return part.subarray(0, readSync(file, part, 0, part.length, from));
  } finally {
    closeSync(file);
  }
}

const seqOf = (text: string) => /^\{"seq":(\d+),/.exec(text)?.[1];
const seqAt = (content: Buffer, offset: number) => seqOf(content.toString('latin1', offset, offset + 32));

/** Returns the numbers of the first and the last line in a buffer of whole lines. */
export function seqRange(lines: Buffer): { first: number; last: number } | null {
  const first = seqAt(lines, 0);
  const last = seqAt(lines, lines.lastIndexOf(0x0a, -2) + 1);
  return first && last ? { first: Number(first), last: Number(last) } : null;
}

/** Returns the offset of the first line with this number or a higher one, or the file's end. */
export function offsetOf({ path, bytes }: Pick<Segment, 'path' | 'bytes'>, seq: number): number {
  const content = readPart(path, 0, bytes);
  let offset = 0;
  while (offset < content.length) {
    const end = content.indexOf(0x0a, offset) + 1;
    if (end === 0) return content.length;
    if (Number(seqAt(content, offset) ?? 0) >= seq) return offset;
    offset = end;
  }
  return offset;
}

export interface SpooledLine {
  seq: number;
  at: string;
  stream: string;
  line: string;
}

/** Skips a partial first line, and lines that a power cut damaged. */
export const parseLines = (content: Buffer): SpooledLine[] =>
  content
    .toString('utf8')
    .split('\n')
    .flatMap((text) => parseLine(text) ?? []);

/** Returns null for a partial or damaged line. */
export function parseLine(text: string): SpooledLine | null {
  if (seqOf(text) === undefined) return null;
  try {
    const value: unknown = JSON.parse(text);
    if (!isFields(value) || typeof value.seq !== 'number') return null;
    return { seq: value.seq, at: String(value.at), stream: String(value.stream), line: String(value.line) };
  } catch {
    return null;
  }
}
