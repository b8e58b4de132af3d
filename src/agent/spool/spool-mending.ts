/**
 * Repairs a file of the spool that a power cut, a full disk or a person damaged. Readable lines
 * stay; one loss record stands for the rest. An agent must neither fail to start over such a file
 * nor stop shipping its log.
 */
import { readFileSync, truncateSync } from 'node:fs';
import { writeWhole } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { isLossRecord, lossLine } from './loss-record.ts';

export interface Damage {
  /** The number that the file is named after. */
  first: number;
  /**
   * The number that the next file is named after; null for the last file, whose end is wherever its
   * writer was stopped.
   */
  following: number | null;
  /** Lines up to this number are not lost: the server has them, or they were skipped on purpose. */
  acknowledged: number;
  at: string;
}

interface WholeRecord {
  seq: number;
  /** It is a loss record, which accounts for the numbers missing before it. */
  saysLoss: boolean;
}

/** Null for anything that is not whole. */
function readRecord(record: string): WholeRecord | null {
  try {
    const value: unknown = JSON.parse(record);
    if (!isFields(value) || typeof value.line !== 'string' || typeof value.stream !== 'string') return null;
    if (!Number.isSafeInteger(value.seq) || !record.startsWith(`{"seq":${value.seq},`)) return null;
    return { seq: Number(value.seq), saysLoss: isLossRecord(value.stream, value.line) };
  } catch {
    // It counts as lost.
    return null;
  }
}

const missing = (count: number | null) => lossLine(count, "the spool on the machine's disk was damaged");

/** Returns the number of its last line; null where it has none. Leaves an undamaged file alone. */
export function mendSegment(path: string, { first, following, acknowledged, at }: Damage): number | null {
  const content = readFileSync(path);
  const whole = content.lastIndexOf(0x0a) + 1;
  const records = content.toString('utf8', 0, whole).split('\n').slice(0, -1);
  const kept: string[] = [];
  let last = first - 1;
  let isDamaged = false;
  const say = (seq: number, count: number | null) => {
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
    // A hole may hold nothing unreadable: where line ends were overwritten, one line swallows those
    // behind it.
    const lost = found.seq - Math.max(last, acknowledged) - 1;
    if (lost > 0 && (unreadable || !found.saysLoss)) {
      isDamaged = true;
      say(found.seq - 1, lost);
    }
    unreadable = false;
    kept.push(record);
    last = found.seq;
  }
  const lost = following === null ? 0 : following - last - 1;
  if (lost > 0 && following !== null) say(following - 1, lost);
  else if (unreadable && following === null) say(last + 1, null);
  if (isDamaged || lost > 0) writeWhole(path, `${kept.join('\n')}\n`);
  // A line that was cut off while it was written counts as never written.
  else if (whole < content.length) truncateSync(path, whole);
  return last < first ? null : last;
}
