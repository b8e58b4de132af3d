/** Checks how a block of lines is redrawn, on a screen in memory. */
import { expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { screenOutput } from '../testing/screen.ts';
import { openLiveView } from './live-view.ts';

test('redraws in place: once for a burst of changes, and once a second without changes', async () => {
  const clock = virtualClock();
  const screen = screenOutput({ columns: 40, rows: 10 });
  let composed = 0;
  const view = openLiveView(screen, clock, () => [`drawn ${++composed}`, 'second line']);
  expect(screen.lines()).toEqual(['drawn 1', 'second line']);
  view.markChanged();
  view.markChanged();
  await clock.advance(200);
  expect(screen.lines()).toEqual(['drawn 2', 'second line']);
  await clock.advance(1000);
  expect(screen.lines()).toEqual(['drawn 3', 'second line']);
  view.close(['the end']);
  expect(screen.lines()).toEqual(['the end']);
  expect(clock.pendingTimers()).toBe(0);
  expect(screen.isCursorHidden()).toBe(false);
});

test('clears the old lines of a block that shrinks, and keeps the lines above the block', async () => {
  const clock = virtualClock();
  const screen = screenOutput({ columns: 40, rows: 10 });
  screen.write('$ before\n');
  let lines = ['a', 'b', 'c'];
  const view = openLiveView(screen, clock, () => lines);
  lines = ['x'];
  view.markChanged();
  await clock.advance(200);
  expect(screen.lines()).toEqual(['$ before', 'x']);
  view.close();
  expect(screen.lines()).toEqual(['$ before', 'x']);
});

test('cuts the block to the height of the window', () => {
  const screen = screenOutput({ columns: 40, rows: 4 });
  const view = openLiveView(screen, virtualClock(), () => ['1', '2', '3', '4', '5']);
  expect(screen.lines()).toEqual(['1', '2', '3']);
  view.close(['over']);
});
