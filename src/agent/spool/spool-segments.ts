/**
 * The files of the spool. A segment holds consecutive lines and is named after the first; a gap
 * file holds one line that says how many were dropped. Each file ends where the next begins, so the
 * names alone define the ranges.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync, truncateSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { isLossRecord, lossLine } from './loss-record.ts';

interface Damage {
  /** The number in the file's name. */
  first: number;
  /** The number in the next file's name; null for the last file, which may end anywhere. */
  following: number | null;
  /** Lines up to this number are not lost: the server has them, or they were skipped on purpose. */
  acknowledged: number;
  at: string;
}

interface WholeRecord {
  seq: number;
  /** Whether the line is a loss record, which accounts for the numbers missing before it. */
  isLoss: boolean;
}

/** Returns null for an incomplete record. */
function readRecord(record: string): WholeRecord | null {
  try {
    const value: unknown = JSON.parse(record);
    if (!isFields(value) || typeof value.line !== 'string' || typeof value.stream !== 'string') return null;
    if (!Number.isSafeInteger(value.seq) || !record.startsWith(`{"seq":${value.seq},`)) return null;
    return { seq: Number(value.seq), isLoss: isLossRecord(value.stream, value.line) };
  } catch {
    // It counts as lost.
    return null;
  }
}

const missing = (count: number | null) => lossLine(count, "the spool on the machine's disk was damaged");

/**
 * Repairs a spool file that a power cut, a full disk or a person damaged: readable lines stay, a
 * loss record stands for the rest. Such a file must stop neither the start nor the shipping.
 * Returns the number of the last line, or null if there is none.
 */
function repairSegment(path: string, { first, following, acknowledged, at }: Damage): number | null {
  const content = readFileSync(path);
  const whole = content.lastIndexOf(0x0a) + 1;
  const records = content.toString('utf8', 0, whole).split('\n').slice(0, -1);
  const kept: string[] = [];
  let last = first - 1;
  let isDamaged = false;
  const addLossRecord = (seq: number, count: number | null) => {
    kept.push(JSON.stringify({ seq, at, stream: 'agent', line: missing(count) }));
    last = seq;
  };
  let unreadable = false;
  for (const record of records) {
    const found = readRecord(record);
    if (found === null || found.seq <= last || (following !== null && found.seq >= following)) {
      isDamaged = true;
      unreadable = true;
      continue;
    }
    // A gap may contain nothing unreadable: if a line end was overwritten, one line swallows those
    // after it.
    const lost = found.seq - Math.max(last, acknowledged) - 1;
    if (lost > 0 && (unreadable || !found.isLoss)) {
      isDamaged = true;
      addLossRecord(found.seq - 1, lost);
    }
    unreadable = false;
    kept.push(record);
    last = found.seq;
  }
  const lost = following === null ? 0 : following - last - 1;
  if (lost > 0 && following !== null) addLossRecord(following - 1, lost);
  else if (unreadable && following === null) addLossRecord(last + 1, null);
  if (isDamaged || lost > 0) writeAtomically(path, `${kept.join('\n')}\n`);
  // A line that was cut off while it was written counts as never written.
  else if (whole < content.length) truncateSync(path, whole);
  return last < first ? null : last;
}

export interface Segment {
  path: string;
  first: number;
  bytes: number;
  /** Whether the file stands for dropped lines. */
  gap: boolean;
}

const name = /^(\d{16})\.(lines|gap)$/;

export const segmentPath = (directory: string, first: number, kind: 'lines' | 'gap' = 'lines') =>
  join(directory, `${String(first).padStart(16, '0')}.${kind}`);

export interface FoundSegments {
  segments: Segment[];
  /** The number of the next line. */
  next_seq: number;
}

/**
 * Repairs the leftovers of a crash or a bad disk: partial and unreadable lines, and lines that a
 * gap already counts as dropped.
 */
export function findSegments(directory: string, acknowledged: number, at: string): FoundSegments {
  const segments: Segment[] = [];
  let next_seq = 1;
  const files = readdirSync(directory).filter((file) => name.test(file));
  const firsts = files.sort().map((file) => Number.parseInt(file, 10));
  for (const [place, file] of files.entries()) {
    const path = join(directory, file);
    const first = firsts[place] ?? 0;
    if (first < next_seq) {
      unlinkSync(path);
      continue;
    }
    const gap = file.endsWith('.gap');
    // The lines that a gap stands for may still lie beside it.
    const following = gap ? null : (firsts.find((other) => other > first) ?? null);
    const last_seq = repairSegment(path, { first, following, acknowledged, at });
    segments.push({ path, first, bytes: statSync(path).size, gap });
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

/** The numbers of the first and last line in a buffer of whole lines. */
export function seqRange(lines: Buffer): { first: number; last: number } | null {
  const first = seqAt(lines, 0);
  const last = seqAt(lines, lines.lastIndexOf(0x0a, -2) + 1);
  return first && last ? { first: Number(first), last: Number(last) } : null;
}

/** The offset of the line with this number; the end of the file if all its lines come before. */
export function offsetOf({ path, bytes }: Segment, seq: number): number {
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

export interface KeptLine {
  seq: number;
  at: string;
  stream: string;
  line: string;
}

/** Skips a partial first line. */
export function parseLines(content: Buffer): KeptLine[] {
  const texts = content.toString('utf8').split('\n');
  return texts.filter((text) => seqOf(text) !== undefined).flatMap((text) => lineFrom(JSON.parse(text)));
}

function lineFrom(value: unknown): KeptLine[] {
  if (!isFields(value) || typeof value.seq !== 'number') return [];
  return [{ seq: value.seq, at: String(value.at), stream: String(value.stream), line: String(value.line) }];
}
