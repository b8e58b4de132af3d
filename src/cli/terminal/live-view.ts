/** A block of lines at the bottom of the terminal that is redrawn in place until it is closed. */
import type { Clock } from '../../base/clock.ts';
import { safeLine } from '../render/text/palette.ts';
import { displayWidth } from '../render/text/text.ts';
import type { Surface } from './terminal.ts';

export interface LiveView {
  /** Something changed; it is drawn at the next tick, so that a burst of news costs one redraw. */
  touch(): void;
  /** Leaves the given lines in place of the block, or what it last showed. */
  close(lines?: string[]): void;
}

const hideCursor = '\x1b[?25l';
export const showCursor = '\x1b[?25h';
const clearToLineEnd = '\x1b[K';
const clearBelow = '\x1b[J';
const up = (rows: number) => (rows > 0 ? `\x1b[${rows}A` : '');

const tickMs = 200;
/** Counters run in whole seconds. */
const ticksPerRedraw = 5;

export function openLiveView(surface: Surface, clock: Clock, compose: () => string[]): LiveView {
  let shown: string[] = [];
  let changed = true;
  let ticks = 0;

  // A narrower window has since broken long lines in two; counting that is what keeps the redraw in its place.
  const rowsTaken = () =>
    shown.reduce((rows, line) => rows + Math.max(1, Math.ceil(displayWidth(line) / surface.columns())), 0);

  const draw = (lines: string[]) => {
    const body = lines.map((line) => `${safeLine(line, surface.paint)}${clearToLineEnd}\n`).join('');
    surface.write(`${up(rowsTaken())}\r${body}${clearBelow}`);
    shown = lines;
  };

  const redraw = () => {
    changed = false;
    ticks = 0;
    // What has scrolled out of the window cannot be redrawn, so the block must not be higher than it.
    draw(compose().slice(0, Math.max(1, surface.rows() - 1)));
  };

  let cancelTick = () => {};
  const tick = () => {
    ticks += 1;
    if (changed || ticks >= ticksPerRedraw) redraw();
    cancelTick = clock.after(tickMs, tick);
  };
  const stopListening = surface.onResize(() => {
    changed = true;
  });

  surface.write(hideCursor);
  redraw();
  cancelTick = clock.after(tickMs, tick);

  return {
    touch() {
      changed = true;
    },
    close(lines) {
      cancelTick();
      stopListening();
      draw(lines ?? compose());
      surface.write(showCursor);
    },
  };
}
