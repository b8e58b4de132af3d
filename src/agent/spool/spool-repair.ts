/**
 * Repairs a spool file that a power cut, a full disk or a person damaged. Readable lines stay; a
 * loss record stands for the rest. A damaged file must neither stop the agent from starting nor
 * from shipping its log.
 */
import { readFileSync, truncateSync } from 'node:fs';
import { writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { isLossRecord, lossLine } from './loss-record.ts';

export interface Damage {
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
  /** It is a loss record, which accounts for the numbers missing before it. */
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
 * Returns the number of the last line, or null if there is none. Leaves an undamaged file
 * unchanged.
 */
export function repairSegment(path: string, { first, following, acknowledged, at }: Damage): number | null {
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
