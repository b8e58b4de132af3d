/** Copies a child's output into the log, line by line, with at most one chunk in memory. */
import type { Readable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import type { LogStream } from '../spool/spool.ts';
import { lineSplitter } from './line-splitter.ts';

/** Pause between chunks while the spool is crowded: slows the child, never stops it. */
const crowded_pause_ms = 50;

export interface OutputParts {
  clock: Clock;
  log: Log;
  isCrowded(): boolean;
  onLine?(line: string): void;
}

export function logOutput(output: Readable, stream: LogStream, { clock, log, isCrowded, onLine }: OutputParts): void {
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
  // The child ended during a write; everything before has been logged.
  output.on('error', (error) => log.warn('the output of a child broke off', { stream, detail: error.message }));
}
