/** Wraps standard output and standard error: size, colours, redraws, and safe printing. */
import type { WriteStream } from 'node:tty';
import { coloured, type Paint, plain, safeLine } from '../render/text/palette.ts';

export interface TerminalOutput {
  write(text: string): void;
  /** Infinite for a pipe, so that a program reads uncut lines. */
  columns(): number;
  rows(): number;
  /** Whether lines can be redrawn in place. */
  interactive: boolean;
  paint: Paint;
  onResize(run: () => void): () => void;
}

export interface Terminal {
  out: TerminalOutput;
  err: TerminalOutput;
}

type Environment = Record<string, string | undefined>;

export function outputOf(stream: WriteStream, environment: Environment): TerminalOutput {
  const interactive = stream.isTTY === true && environment.TERM !== 'dumb';
  return {
    write: (text) => void stream.write(text),
    columns: () => (stream.isTTY ? stream.columns || 80 : Number.POSITIVE_INFINITY),
    rows: () => (stream.isTTY ? stream.rows || 24 : Number.POSITIVE_INFINITY),
    interactive,
    paint: interactive && !environment.NO_COLOR ? coloured : plain,
    onResize(run) {
      stream.on('resize', run);
      return () => void stream.off('resize', run);
    },
  };
}

export const fitOf = (output: TerminalOutput) => ({ width: output.columns(), paint: output.paint });

export const printLines = (output: TerminalOutput, lines: string[]): void => {
  if (lines.length > 0) output.write(`${lines.map((line) => safeLine(line, output.paint)).join('\n')}\n`);
};

/**
 * JSON.stringify leaves these unescaped: DEL, C1 controls and marks that change the text direction.
 */
const unsafeInJson = /[\u{7f}-\u{9f}\u{2028}-\u{202e}\u{2066}-\u{2069}]/gu;
const escapeMark = (mark: string) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Escapes every character that a terminal acts on. JSON parsers still read the same value. */
const jsonText = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? 'null').replace(unsafeInJson, escapeMark);

export const printJson = (output: TerminalOutput, value: unknown): void => output.write(`${jsonText(value, 2)}\n`);

/** Prints one line of NDJSON. */
export const printJsonLine = (output: TerminalOutput, value: unknown): void => output.write(`${jsonText(value)}\n`);
