/** Carries a child's output into the log, line by line, without ever holding more than a chunk of it in memory. */
import type { Readable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import type { LogStream } from '../spool/spool.ts';
import { lineSplitter } from './line-splitter.ts';

/** While the spool is crowded, a chunk is read this seldom: the child is slowed, never stopped. */
const crowded_pause_ms = 50;

export interface OutputParts {
  clock: Clock;
  log: Log;
  isCrowded(): boolean;
  onLine?(line: string): void;
}

export function carryOutput(output: Readable, stream: LogStream, { clock, log, isCrowded, onLine }: OutputParts): void {
  const splitter = lineSplitter();
  const take = (lines: string[]) => {
    log.lines(stream, lines);
    if (onLine) for (const line of lines) onLine(line);
  };
  output.on('data', (chunk: Buffer) => {
    take(splitter.push(chunk));
    if (!isCrowded()) return;
    output.pause();
    clock.after(crowded_pause_ms, () => output.resume());
  });
  output.on('end', () => take(splitter.end()));
  // The child ended in the middle of a write; what came before has been taken.
  output.on('error', (error) => log.warn('the output of a child broke off', { stream, detail: error.message }));
}
