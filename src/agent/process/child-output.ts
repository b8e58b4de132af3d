/** Copies the output of a child process into the log, with at most one chunk in memory. */
import type { Readable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import type { LogStream } from '../spool/spool.ts';
import { lineSplitter } from './line-splitter.ts';

/** The pause after each chunk while the spool is crowded. It slows the child but never stops it. */
const crowded_pause_ms = 50;

export type OutputLog = Pick<Log, 'lines' | 'warn'>;

export interface OutputParts {
  clock: Clock;
  log: OutputLog;
  isCrowded(): boolean;
  onLine?(line: string): void;
}

export function logOutput(output: Readable, stream: LogStream, { clock, log, isCrowded, onLine }: OutputParts): void {
  const splitter = lineSplitter();
  const logLines = (lines: string[]) => {
    log.lines(stream, lines);
    if (onLine) for (const line of lines) onLine(line);
  };
  output.on('data', (chunk: Buffer) => {
    logLines(splitter.push(chunk));
    if (!isCrowded()) return;
    output.pause();
    clock.after(crowded_pause_ms, () => output.resume());
  });
  output.on('end', () => logLines(splitter.end()));
  // The pipe broke. Everything read before the error is already in the log.
  output.on('error', (error) =>
    log.warn('the output of a child process ended with an error', { stream, detail: error.message }),
  );
}
