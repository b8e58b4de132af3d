/**
 * Copies the command's output from the shim's segments into the agent's log. A line is copied once,
 * even if the agent is killed between two steps: the position is stored before and after each copy,
 * and the spool's numbers show whether the copy happened.
 */
import { closeSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../log.ts';
import { lossLine } from '../../spool/loss-record.ts';
import type { LogStream, Spool } from '../../spool/spool.ts';
import { offsetOf, parseLine, readPart, type SpooledLine } from '../../spool/spool-segments.ts';

export interface OutputReaderParts {
  /** Holds the segments. */
  directory: string;
  position_file: string;
  log: Pick<Log, 'lines'>;
  spool: Pick<Spool, 'lastSeq' | 'tail'>;
  onLine(line: string): void;
}

/** Less than the part of the spool that `tail` reads, so that `findCopiedLines` sees each batch. */
const batch_bytes = 128 * 1024;
const damage = "the output on the machine's disk was damaged";
/** More lines than a batch can hold. */
const max_lines = batch_bytes;

interface Position {
  /** The number of the next line to copy. */
  next: number;
  /** The last number in the spool before an unfinished copy; null if the last copy was finished. */
  spool_seq: number | null;
}

const isOutput = ({ stream }: SpooledLine) => stream === 'stdout' || stream === 'stderr';
const firstSeqOf = (name: string) => Number.parseInt(name, 10);

export interface OutputReader {
  /** Copies the next lines. Returns false if there are none. */
  copy(): boolean;
  close(): void;
}

export function outputReader({ directory, position_file, log, spool, onLine }: OutputReaderParts): OutputReader {
  const position = openPosition(position_file);
  let next = 0;
  let current: { name: string; offset: number } | null = null;
  let isResumed = false;

  const notify = (lines: SpooledLine[]) => {
    for (const { stream, line } of lines) if (stream === 'stdout') onLine(line);
  };

  /** Continues after an earlier agent, or after a copy that failed. */
  const resume = () => {
    const stored = position.read();
    const copied = findCopiedLines(stored, spool);
    next = stored.next + copied.length;
    current = null;
    notify(copied);
  };

  /** The lines have consecutive numbers. `onLine` gets each line of stdout at least once. */
  const copyLines = (lines: SpooledLine[]) => {
    position.write({ next, spool_seq: spool.lastSeq() });
    for (const { stream, at, lines: texts } of groupLines(lines)) log.lines(stream, texts, at);
    notify(lines);
    next += lines.length;
    position.write({ next, spool_seq: null });
  };

  const skipLost = (first: number, cause = 'the agent did not read them in time') => {
    if (first <= next) return;
    log.lines('agent', [lossLine(first - next, cause)]);
    next = first;
    position.write({ next, spool_seq: null });
  };

  /** A power cut may have damaged records; the numbers of the readable ones show what is lost. */
  const copyRecords = (content: Buffer) => {
    const records = content.toString('utf8').split('\n').slice(0, -1).map(parseLine);
    for (const lines of splitConsecutive(records.filter((record) => record !== null))) {
      skipLost(lines[0]?.seq ?? next, damage);
      copyLines(lines);
    }
    skipLost(next + records.length - 1 - records.findLastIndex((record) => record !== null), damage);
  };

  const copyNext = () => {
    for (;;) {
      const names = segmentNames(directory);
      const name = names.findLast((other) => firstSeqOf(other) <= next) ?? names[0];
      if (name === undefined) return false;
      skipLost(firstSeqOf(name));
      // The shim writes only to the newest segment, so older ones have been read to their end.
      for (const older of names) if (older < name) rmSync(join(directory, older), { force: true });
      const path = join(directory, name);
      const bytes = statSync(path).size;
      const offset: number = current?.name === name ? current.offset : offsetOf({ path, bytes }, next);
      const part = readPart(path, offset, Math.min(bytes, offset + batch_bytes));
      const wholeLines = part.subarray(0, part.lastIndexOf(0x0a) + 1);
      if (wholeLines.length > 0) {
        copyRecords(wholeLines);
        current = { name, offset: offset + wholeLines.length };
        return true;
      }
      const nextName = names[names.indexOf(name) + 1];
      if (nextName === undefined) return false;
      skipLost(firstSeqOf(nextName));
    }
  };
  const copy = () => {
    if (!isResumed) resume();
    isResumed = false;
    const hadOutput = copyNext();
    // Not reached after an error: then only the files show how far the copy came.
    isResumed = true;
    return hadOutput;
  };
  return { copy, close: position.close };
}

function segmentNames(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    // A release has removed the directory.
    return [];
  }
}

/**
 * The file is overwritten in place with a fixed width, so that a kill leaves either the old or the
 * new position. A rename for each copy would wait for a busy disk.
 */
function openPosition(path: string) {
  closeSync(openSync(path, 'a', 0o600));
  const file = openSync(path, 'r+');
  const fixedWidth = (value: number) => String(value).padStart(16, '0');
  return {
    read(): Position {
      const [next, spool_next] = readFileSync(path, 'latin1').split(' ').map(Number);
      return { next: next || 1, spool_seq: spool_next ? spool_next - 1 : null };
    },
    write({ next, spool_seq }: Position) {
      const spool_next = spool_seq === null ? 0 : spool_seq + 1;
      writeSync(file, `${fixedWidth(next)} ${fixedWidth(spool_next)}`, 0, 'latin1');
    },
    close: () => closeSync(file),
  };
}

/** If the agent was killed during a copy, these lines have reached the spool. */
function findCopiedLines({ spool_seq }: Position, spool: Pick<Spool, 'tail'>): SpooledLine[] {
  if (spool_seq === null) return [];
  return spool.tail(max_lines).filter((line) => line.seq > spool_seq && isOutput(line));
}

function splitConsecutive(lines: SpooledLine[]): SpooledLine[][] {
  const runs: SpooledLine[][] = [];
  for (const line of lines) {
    const last = runs.at(-1);
    if (last && last.at(-1)?.seq === line.seq - 1) last.push(line);
    else runs.push([line]);
  }
  return runs;
}

interface Group {
  stream: LogStream;
  at: string;
  lines: string[];
}

/** Joins consecutive lines of the same stream and time, so that they are stored by one write. */
function groupLines(lines: SpooledLine[]): Group[] {
  const joined: Group[] = [];
  for (const { stream, at, line } of lines) {
    const last = joined.at(-1);
    if (last && last.stream === stream && last.at === at) last.lines.push(line);
    else joined.push({ stream: stream as LogStream, at, lines: [line] });
  }
  return joined;
}
