import { expect, test } from 'vitest';
import { estimateLeftMs, progressLine } from './progress.ts';

test.for([
  {
    run: { elapsed_ms: 180_000, finished_work_ms: 360_000, remaining_work_ms: 720_000 },
    left: 360_000,
    why: 'two files at a time',
  },
  {
    run: { elapsed_ms: 60_000, finished_work_ms: 120_000, remaining_work_ms: 240_000 },
    left: null,
    why: 'the run has just begun',
  },
  {
    run: { elapsed_ms: 180_000, finished_work_ms: 0, remaining_work_ms: 240_000 },
    left: null,
    why: 'nothing is done yet',
  },
  { run: { elapsed_ms: 60_000, finished_work_ms: 240_000, remaining_work_ms: 0 }, left: 0, why: 'nothing is waiting' },
])('estimates the time left: $why', ({ run, left }) => {
  expect(estimateLeftMs(run)).toBe(left);
});

test.for([
  { left_ms: 540_000, ends: ', about 9 min left' },
  { left_ms: 30_000, ends: ', less than a minute left' },
  { left_ms: 0, ends: ', done' },
  { left_ms: null, ends: '' },
])('shows files, failures and $ends', ({ left_ms, ends }) => {
  const line = progressLine({ elapsed_ms: 200_000, left_ms, done: 214, files: 612, failed: 1 });
  expect(line).toBe(`    3:20  214 of 612 files, 1 failed${ends}`);
});
