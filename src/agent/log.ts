/** The agent's own log: JSON lines with all known ids, on stdout and in the spool. */
import { type Clock, now } from '../base/clock.ts';
import { max_line_length } from './process/line-splitter.ts';
import type { LogStream, Spool } from './spool/spool.ts';
import type { Fields } from './state/shape.ts';

export interface Log {
  info(message: string, facts?: Fields): void;
  warn(message: string, facts?: Fields): void;
  error(message: string, facts?: Fields): void;
  /** Returns the same log with more ids on every line. */
  with(ids: Fields): Log;
  /** Appends lines to a stream. `at` is when they were read. */
  lines(stream: LogStream, lines: string[], at?: string): void;
}

export interface LogParts {
  clock: Clock;
  spool: Spool;
  ids(): Fields;
  print(line: string): void;
  /** Redacts the secrets of this machine. */
  redact(text: string): string;
}

export function agentLog(parts: LogParts): Log {
  const timestamp = () => now(parts.clock).toISOString();
  const write = (level: string, message: string, facts: Fields) => {
    const at = timestamp();
    const line = parts.redact(JSON.stringify({ at, level, msg: message, ...parts.ids(), ...facts }));
    parts.print(line);
    parts.spool.append([{ at, stream: 'agent', line: line.slice(0, max_line_length) }]);
  };
  return {
    info: (message, facts = {}) => write('info', message, facts),
    warn: (message, facts = {}) => write('warn', message, facts),
    error: (message, facts = {}) => write('error', message, facts),
    with: (ids) => agentLog({ ...parts, ids: () => ({ ...parts.ids(), ...ids }) }),
    lines(stream, lines, at = timestamp()) {
      if (lines.length > 0) parts.spool.append(lines.map((line) => ({ at, stream, line: parts.redact(line) })));
    },
  };
}
