/** Renders suggested commands with their purpose, and defines the context that renderers share. */
import type { Session } from '../../connection/session.ts';
import { fitOf } from '../../terminal/terminal.ts';
import type { Paint } from './palette.ts';
import { pad } from './text.ts';

export interface RenderContext {
  paint: Paint;
  width: number;
  nowMs: number;
  commandLine(...words: string[]): string;
}

/** Makes the context for text on standard output. */
export const renderContext = ({ terminal, clock, commandLine }: Session): RenderContext => ({
  ...fitOf(terminal.out),
  nowMs: clock.nowMs(),
  commandLine,
});

export type Hint = [purpose: string, command: string];

/** Aligns the commands in one column, so that they are easy to copy. */
export function hintLines(hints: Hint[], paint: Paint): string[] {
  const width = Math.max(0, ...hints.map(([purpose]) => purpose.length));
  return hints.map(([purpose, command]) => `  ${paint('quiet', pad(`${purpose}:`, width + 1))}  ${command}`);
}
