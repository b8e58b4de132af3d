/** The agent's own words: JSON lines with all the ids it knows, on its output and in the spool. */
import { type Clock, now } from '../base/clock.ts';
import { most_line_length } from './process/line-splitter.ts';
import type { LogStream, Spool } from './spool/spool.ts';
import type { Fields } from './state/shape.ts';

export interface Log {
  info(message: string, facts?: Fields): void;
  warn(message: string, facts?: Fields): void;
  error(message: string, facts?: Fields): void;
  /** The same log, with more ids on every line. */
  with(ids: Fields): Log;
  /** Lines of somebody else: the command, `setup`, `clean`. */
  lines(stream: LogStream, lines: string[]): void;
}

export interface LogParts {
  clock: Clock;
  spool: Spool;
  ids(): Fields;
  print(line: string): void;
  /** What is secret on this machine, struck out. */
  strike(text: string): string;
}

export function agentLog(parts: LogParts): Log {
  const at = () => now(parts.clock).toISOString();
  const say = (level: string, message: string, facts: Fields) => {
    const said = at();
    const line = parts.strike(JSON.stringify({ at: said, level, msg: message, ...parts.ids(), ...facts }));
    parts.print(line);
    parts.spool.append([{ at: said, stream: 'agent', line: line.slice(0, most_line_length) }]);
  };
  return {
    info: (message, facts = {}) => say('info', message, facts),
    warn: (message, facts = {}) => say('warn', message, facts),
    error: (message, facts = {}) => say('error', message, facts),
    with: (ids) => agentLog({ ...parts, ids: () => ({ ...parts.ids(), ...ids }) }),
    lines(stream, lines) {
      const said = at();
      if (lines.length > 0) parts.spool.append(lines.map((line) => ({ at: said, stream, line: parts.strike(line) })));
    },
  };
}
