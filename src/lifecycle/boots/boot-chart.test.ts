import { expect, test } from 'vitest';
import { computeStageStarts } from './boot-chart.ts';

test('places stages in sequence, and sub-stages inside their parent', () => {
  const stages = [
    { name: 'pull', seconds: 100 },
    { name: 'set-up', seconds: 300 },
    { name: 'drivers', seconds: 200, parent: 'set-up' },
    { name: 'weights', seconds: 100, parent: 'set-up' },
  ];
  expect(computeStageStarts(stages)).toEqual([0, 100, 100, 300]);
});

test('uses reported start times', () => {
  const stages = [
    { name: 'a', seconds: 10, started_at: '2026-01-01T00:00:00Z' },
    { name: 'b', seconds: 10, started_at: '2026-01-01T00:00:30Z' },
    { name: 'c', seconds: 1 },
  ];
  expect(computeStageStarts(stages)).toEqual([0, 30, 40]);
});

test('uses a reported offset, and places the next stage after that one', () => {
  const stages = [
    { name: 'a', seconds: 2, starts_seconds: 4.5 },
    { name: 'b', seconds: 1 },
  ];
  expect(computeStageStarts(stages)).toEqual([4.5, 6.5]);
});

test('places sub-stages in sequence if their parent is not reported', () => {
  const stages = [
    { name: 'config-scripts_user', seconds: 381, parent: 'modules-final' },
    { name: 'config-growpart', seconds: 30, parent: 'init-network' },
  ];
  expect(computeStageStarts(stages)).toEqual([0, 381]);
});

test('gives every stage a finite start if parents form a cycle', () => {
  const stages = [
    { name: 'a', seconds: 1, parent: 'b' },
    { name: 'b', seconds: 1, parent: 'a' },
  ];
  expect(computeStageStarts(stages).every(Number.isFinite)).toBe(true);
  expect(computeStageStarts([])).toEqual([]);
});
