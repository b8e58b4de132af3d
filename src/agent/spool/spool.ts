/**
 * Stores log lines on disk until the server has them. Each line is numbered and written
 * synchronously at once, so a fast producer waits for the disk and lines do not pile up in memory.
 * A number that the server may have seen is never reused, even after a kill at any moment.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import type { ShippedLine } from '../../contract/agent/agent.ts';
import { syncDirectory, writeAtomically } from '../state/durable-file.ts';
import { errorCode, errorText } from '../state/shape.ts';
import { lossLine } from './loss-record.ts';
import {
  loadSegments,
  offsetOf,
  parseLines,
  readPart,
  type Segment,
  type SpooledLine,
  segmentPath,
  seqRange,
} from './spool-segments.ts';

export type LogStream = ShippedLine['stream'];
export type SpoolLine = Omit<ShippedLine, 'seq'>;

export interface Batch {
  /** NDJSON, as on the wire. */
  body: Buffer;
  first: number;
  last: number;
}

export interface Spool {
  append(lines: SpoolLine[]): void;
  onAppend(listener: () => void): void;
  /** Returns the oldest lines that the server has not acknowledged; null if there are none. */
  batch(max_lines?: number): Batch | null;
  acknowledge(seq: number): void;
  /**
   * Call it before shipping, with the number of the last line that the server has. If the spool has
   * not used that number yet, it is an older copy. Lines appended since it was opened are repeated
   * under higher numbers, because the server would drop them as duplicates.
   */
  continueAfter(seq: number): void;
  /** The number of the last appended line. */
  lastSeq(): number;
  /** After this call, all lines appended so far survive a power cut. */
  sync(): void;
  /** Whether so many lines are pending that writers should slow down. */
  isCrowded(): boolean;
  /** Returns the last lines, including acknowledged ones. */
  tail(count: number): SpooledLine[];
  /**
   * Removes every line from the disk. Returns false, and does nothing, while lines wait for the
   * server.
   */
  forgetAll(): boolean;
  close(): void;
}

export interface SpoolLimits {
  segment_bytes: number;
  max_bytes: number;
  batch_bytes: number;
}

const defaultLimits: SpoolLimits = {
  segment_bytes: 1024 * 1024,
  max_bytes: 32 * 1024 * 1024,
  batch_bytes: 256 * 1024,
};

const acknowledgedName = 'acknowledged';

/**
 * The next number if the spool of a registered instance was lost. It must be higher than any number
 * used before, or the server would drop the lines as duplicates. It is, unless the instance wrote
 * more than a million lines a second.
 */
export const seqAfterLoss = (clock: Clock): number => Math.floor(clock.nowMs()) * 1000;

/** Whether there was a spool here before. */
export const isSpool = (directory: string): boolean => existsSync(join(directory, acknowledgedName));

const olderSpoolLine = lossLine(null, 'the spool is older than what the server has of this log');

type WriteSync = (file: number, content: Buffer, offset: number) => number;

export function openSpool(
  directory: string,
  clock: Clock,
  limits: SpoolLimits = defaultLimits,
  writeTo: WriteSync = writeSync,
  first_seq = 1,
): Spool {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const acknowledgement = openAcknowledgement(join(directory, acknowledgedName));
  let acknowledged = acknowledgement.read();
  const loaded = loadSegments(directory, acknowledged, now(clock).toISOString());
  const { segments } = loaded;
  let next_seq = Math.max(loaded.next_seq, acknowledged + 1, first_seq);
  const opened_seq = next_seq;
  let unwritten = { lines: 0, cause: '' };
  let cursor: { segment: Segment; offset: number } | null = null;
  let lastBatch: { segment: Segment; end: number; last: number } | null = null;
  let isSynced = false;
  const listeners: (() => void)[] = [];

  const beginSegment = (): number => {
    const segment: Segment = { path: segmentPath(directory, next_seq), first: next_seq, bytes: 0, isGap: false };
    const file = openSync(segment.path, 'a', 0o600);
    syncDirectory(directory);
    segments.push(segment);
    return file;
  };
  const last = segments.at(-1);
  let active = last && !last.isGap ? openSync(last.path, 'a', 0o600) : beginSegment();

  const totalBytes = () => segments.reduce((sum, { bytes }) => sum + bytes, 0);
  const lastSeqOf = (index: number) => (segments[index + 1]?.first ?? next_seq) - 1;

  const write = (lines: SpoolLine[]) => {
    const segment = segments.at(-1);
    if (!segment) throw new Error('the spool has no segment to write to');
    const records = lines.map(({ at, stream, line }, i) => JSON.stringify({ seq: next_seq + i, at, stream, line }));
    const content = Buffer.from(`${records.join('\n')}\n`);
    try {
      for (let done = 0; done < content.length; ) done += writeTo(active, content, done);
    } catch (error) {
      ftruncateSync(active, segment.bytes);
      throw error;
    }
    segment.bytes += content.length;
    next_seq += lines.length;
    isSynced = false;
  };

  const makeRoom = () => {
    if ((segments.at(-1)?.bytes ?? 0) < limits.segment_bytes) return;
    const fullFile = active;
    active = beginSegment();
    fdatasyncSync(fullFile);
    closeSync(fullFile);
    removeAcknowledged();
    while (totalBytes() > limits.max_bytes && segments.length > 2) dropOldest();
  };

  /**
   * Removes acknowledged segments. Keeps the one before the current segment, because a release asks
   * for the last lines.
   */
  const removeAcknowledged = () => {
    while (segments.length > 2 && lastSeqOf(0) <= acknowledged) {
      const oldest = segments.shift();
      if (oldest) unlinkSync(oldest.path);
    }
  };

  /**
   * Replaces the oldest segment by a loss record. The oldest lines are dropped because the newest
   * are the most useful.
   */
  const dropOldest = () => {
    const droppedSegments = segments.slice(0, segments[0]?.isGap ? 2 : 1);
    const first = segments[0]?.first ?? next_seq;
    const seq = lastSeqOf(droppedSegments.length - 1);
    const droppedLines = seq - Math.max(first, acknowledged + 1) + 1;
    const path = segmentPath(directory, first, 'gap');
    const line = lossLine(droppedLines, 'the spool was full before the server accepted them');
    const record = `${JSON.stringify({ seq, at: now(clock).toISOString(), stream: 'agent', line })}\n`;
    writeAtomically(path, record);
    for (const segment of droppedSegments) if (segment.path !== path) unlinkSync(segment.path);
    segments.splice(0, droppedSegments.length, { path, first, bytes: Buffer.byteLength(record), isGap: true });
    cursor = null;
    lastBatch = null;
  };

  const findCursor = () => {
    const index = segments.findIndex((_, i) => lastSeqOf(i) > acknowledged);
    const segment = segments[index];
    return segment ? { segment, offset: offsetOf(segment, acknowledged + 1) } : null;
  };

  const append = (lines: SpoolLine[]) => {
    const loss = lossLine(unwritten.lines, `the spool could not be written (${unwritten.cause})`);
    const notice: SpoolLine[] =
      unwritten.lines > 0 ? [{ at: now(clock).toISOString(), stream: 'agent', line: loss }] : [];
    try {
      makeRoom();
      write([...notice, ...lines]);
      unwritten = { lines: 0, cause: '' };
    } catch (error) {
      // A full disk must not stop the workload. The next line that can be written records the loss.
      unwritten = { lines: unwritten.lines + lines.length, cause: errorCode(error) ?? errorText(error) };
    }
    for (const listener of listeners) listener();
  };

  return {
    append,
    onAppend: (listener) => void listeners.push(listener),
    batch(max_lines = Number.POSITIVE_INFINITY) {
      cursor ??= findCursor();
      if (cursor && cursor.offset >= cursor.segment.bytes) cursor = findCursor();
      if (!cursor) return null;
      const { segment, offset } = cursor;
      const part = readPart(segment.path, offset, Math.min(segment.bytes, offset + limits.batch_bytes));
      const body = part.subarray(0, endOfLine(part, max_lines));
      const range = seqRange(body);
      if (!range) return null;
      lastBatch = { segment, end: offset + body.length, last: range.last };
      return { body, ...range };
    },
    acknowledge(seq) {
      const newSeq = Math.min(seq, next_seq - 1);
      if (newSeq <= acknowledged) return;
      acknowledged = newSeq;
      acknowledgement.write(newSeq);
      cursor = lastBatch?.last === newSeq ? { segment: lastBatch.segment, offset: lastBatch.end } : null;
      removeAcknowledged();
    },
    continueAfter(seq) {
      if (seq < opened_seq) return;
      const storedLines = segments.flatMap(({ path, bytes }) => parseLines(readPart(path, 0, bytes)));
      next_seq = Math.max(next_seq, seq + 1);
      acknowledged = next_seq - 1;
      acknowledgement.write(acknowledged);
      cursor = null;
      lastBatch = null;
      append([{ at: now(clock).toISOString(), stream: 'agent', line: olderSpoolLine }]);
      for (const line of storedLines) if (line.seq >= opened_seq) append([line as SpoolLine]);
    },
    lastSeq: () => next_seq - 1,
    sync() {
      if (!isSynced) fdatasyncSync(active);
      isSynced = true;
    },
    isCrowded: () => (next_seq - 1 > acknowledged ? totalBytes() > limits.max_bytes / 4 : false),
    tail(count) {
      const ends = segments.slice(-2).map(({ path, bytes }) => {
        return readPart(path, Math.max(0, bytes - limits.batch_bytes), bytes);
      });
      return ends.flatMap(parseLines).slice(-count);
    },
    forgetAll() {
      if (next_seq - 1 > acknowledged) return false;
      // Create the new file before the old ones are removed: its name holds the next number, so the
      // number survives a kill at any moment.
      if ((segments.at(-1)?.bytes ?? 0) > 0) {
        closeSync(active);
        active = beginSegment();
      }
      segments.splice(0, segments.length - 1);
      const pathsToKeep = [segments[0]?.path, join(directory, acknowledgedName)];
      for (const path of readdirSync(directory).map((name) => join(directory, name))) {
        if (!pathsToKeep.includes(path)) rmSync(path, { recursive: true, force: true });
      }
      cursor = null;
      lastBatch = null;
      return true;
    },
    close() {
      closeSync(active);
      acknowledgement.close();
    },
  };
}

function endOfLine(part: Buffer, max_lines: number): number {
  if (!Number.isFinite(max_lines)) return part.lastIndexOf(0x0a) + 1;
  let end = 0;
  for (let line = 0; line < max_lines; line++) {
    const next = part.indexOf(0x0a, end) + 1;
    if (next === 0) break;
    end = next;
  }
  return end;
}

/**
 * The file is overwritten in place with a fixed width, so that a kill leaves either the old or the
 * new number.
 */
function openAcknowledgement(path: string) {
  const file = openSync(path, 'a+', 0o600);
  closeSync(file);
  const inPlace = openSync(path, 'r+');
  return {
    read: () => Number.parseInt(readFileSync(path, 'latin1'), 10) || 0,
    write: (seq: number) => void writeSync(inPlace, String(seq).padStart(16, '0'), 0, 'latin1'),
    close: () => closeSync(inPlace),
  };
}
