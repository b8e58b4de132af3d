import { expect, test } from 'vitest';
import { addJitter, createBackoff } from './backoff.ts';

test('doubles the pause up to the maximum, jitters downwards, and starts again at the first pause after a reset', () => {
  const pauses = createBackoff({ first_ms: 100, max_ms: 1000 }, () => 1);
  expect([1, 2, 3, 4, 5, 6].map(() => pauses.nextMs())).toEqual([100, 200, 400, 800, 1000, 1000]);
  pauses.reset();
  expect(pauses.nextMs()).toBe(100);
  expect(createBackoff({ first_ms: 100, max_ms: 1000 }, () => 0).nextMs()).toBe(50);
});

test('jitters an interval by at most 10 %', () => {
  expect(addJitter(1000, () => 0)).toBeCloseTo(900);
  expect(addJitter(1000, () => 1)).toBeCloseTo(1100);
});
