/** Redraws a block of lines at the bottom of the terminal in place until the view is closed. */
import type { Clock } from '../../base/clock.ts';
import { safeLine } from '../render/text/palette.ts';
import { displayWidth } from '../render/text/text.ts';
import type { TerminalOutput } from './terminal.ts';

export interface LiveView {
  /** Redraws at the next tick, so that a burst of changes costs one redraw. */
  markChanged(): void;
  /** Replaces the block by these lines, or redraws it one last time. */
  close(lines?: string[]): void;
}

const hideCursor = '\x1b[?25l';
export const showCursor = '\x1b[?25h';
const clearToLineEnd = '\x1b[K';
const clearBelow = '\x1b[J';
const moveUp = (rows: number) => (rows > 0 ? `\x1b[${rows}A` : '');

const tickMs = 200;
/** Redraws once a second without changes, because counters on the screen show whole seconds. */
const ticksPerRedraw = 5;

export function openLiveView(output: TerminalOutput, clock: Clock, compose: () => string[]): LiveView {
  let drawnLines: string[] = [];
  let isChanged = true;
  let ticks = 0;

  // After a resize, a long line may take several rows, and the redraw must move up over all of
  // them.
  const rowsTaken = () =>
    drawnLines.reduce((rows, line) => rows + Math.max(1, Math.ceil(displayWidth(line) / output.columns())), 0);

  const draw = (lines: string[]) => {
    const body = lines.map((line) => `${safeLine(line, output.paint)}${clearToLineEnd}\n`).join('');
    output.write(`${moveUp(rowsTaken())}\r${body}${clearBelow}`);
    drawnLines = lines;
  };

  const redraw = () => {
    isChanged = false;
    ticks = 0;
    // Lines that scrolled out of the window cannot be redrawn, so the block must fit in it.
    draw(compose().slice(0, Math.max(1, output.rows() - 1)));
  };

  let cancelTick = () => {};
  const tick = () => {
    ticks += 1;
    if (isChanged || ticks >= ticksPerRedraw) redraw();
    cancelTick = clock.after(tickMs, tick);
  };
  const stopListening = output.onResize(() => {
    isChanged = true;
  });

  output.write(hideCursor);
  redraw();
  cancelTick = clock.after(tickMs, tick);

  return {
    markChanged() {
      isChanged = true;
    },
    close(lines) {
      cancelTick();
      stopListening();
      draw(lines ?? compose());
      output.write(showCursor);
    },
  };
}
