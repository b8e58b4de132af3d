/**
 * A file of the spool that a power cut, a full disk or somebody's hand damaged. What can be read of it stays, and one line in the place of
 * the rest says how many are missing: neither may an agent fail to start over it, nor its log stand still there for good.
 */
import { readFileSync, truncateSync } from 'node:fs';
import { writeWhole } from './durable-file.ts';
import { isFields } from './shape.ts';

export interface Damage {
  /** The number that the file is named after. */
  first: number;
  /** The number that the next file is named after; null for the last file, whose end is wherever its writer was stopped. */
  following: number | null;
  at: string;
}

/** The number of a record that is whole; null for anything else. */
function seqIn(record: string): number | null {
  try {
    const value: unknown = JSON.parse(record);
    if (!isFields(value) || typeof value.line !== 'string' || typeof value.stream !== 'string') return null;
    return Number.isSafeInteger(value.seq) && record.startsWith(`{"seq":${value.seq},`) ? Number(value.seq) : null;
  } catch {
    // What it said nobody can tell any more; that it is missing is said in its place.
    return null;
  }
}

const missing = (count: number | null) =>
  `dropped ${count === null ? 'lines, nobody knows how many' : `${count} ${count === 1 ? 'line' : 'lines'}`}: the spool on the machine's disk was damaged`;

/** Answers with the number of its last line; null where it has none. Touches nothing that is whole. */
export function mendSegment(path: string, { first, following, at }: Damage): number | null {
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
    const seq = seqIn(record);
    if (seq === null || seq <= last || (following !== null && seq >= following)) {
      isDamaged = true;
      unreadable = true;
      continue;
    }
    // Numbers that were passed over on purpose leave a hole as well, with nothing unreadable in it.
    if (unreadable && seq > last + 1) say(seq - 1, seq - last - 1);
    unreadable = false;
    kept.push(record);
    last = seq;
  }
  const lost = following === null ? 0 : following - last - 1;
  if (lost > 0 && following !== null) say(following - 1, lost);
  else if (unreadable && following === null) say(last + 1, null);
  if (isDamaged || lost > 0) writeWhole(path, `${kept.join('\n')}\n`);
  // The line that was being written when its writer was stopped counts as never written.
  else if (whole < content.length) truncateSync(path, whole);
  return last < first ? null : last;
}
