/**
 * Writes the command's output to numbered segments of bounded size. The agent removes segments that
 * it has read. If no agent reads, the oldest are dropped, and their numbers are missing.
 */
import { closeSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, now } from '../../../base/clock.ts';
import type { LogStream } from '../../spool/spool.ts';
import { segmentPath } from '../../spool/spool-segments.ts';
import type { OutputLog } from '../child-output.ts';

export interface OutputLimits {
  segment_bytes: number;
  max_segments: number;
  /** With more unread segments the command is slowed down. */
  crowded_segments: number;
}

const defaultLimits: OutputLimits = { segment_bytes: 1024 * 1024, max_segments: 16, crowded_segments: 4 };

export interface OutputWriter extends OutputLog {
  isCrowded(): boolean;
}

export function openOutput(
  directory: string,
  clock: Clock,
  redact: (text: string) => string,
  limits: OutputLimits = defaultLimits,
): OutputWriter {
  let next_seq = 1;
  let file: number | null = null;
  let bytes = 0;
  let segments = 0;

  const countSegments = () => {
    const names = readdirSync(directory).sort();
    for (const name of names.slice(0, -limits.max_segments)) rmSync(join(directory, name), { force: true });
    segments = Math.min(names.length, limits.max_segments);
  };
  const openSegment = (first: number): number => {
    if (file !== null && bytes < limits.segment_bytes) return file;
    const newFile = openSync(segmentPath(directory, first), 'a', 0o600);
    if (file !== null) closeSync(file);
    file = newFile;
    bytes = 0;
    countSegments();
    return newFile;
  };
  const write = (stream: LogStream, lines: string[]) => {
    const at = now(clock).toISOString();
    const first = next_seq;
    next_seq += lines.length;
    const records = lines.map((line, i) => JSON.stringify({ seq: first + i, at, stream, line: redact(line) }));
    const content = Buffer.from(`${records.join('\n')}\n`);
    try {
      const segment = openSegment(first);
      for (let done = 0; done < content.length; ) {
        const written = writeSync(segment, content, done);
        bytes += written;
        done += written;
      }
    } catch {
      // A full disk must not stop the command. The next segment begins after the lost numbers.
      bytes = limits.segment_bytes;
    }
  };

  return {
    lines: (stream, lines) => {
      if (lines.length > 0) write(stream, lines);
    },
    warn() {},
    isCrowded() {
      if (segments > limits.crowded_segments) countSegments();
      return segments > limits.crowded_segments;
    },
  };
}
