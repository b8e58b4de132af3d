import { expect, test } from 'vitest';
import { createPercentFloor } from './percent-floor.ts';

test('never lowers the percentage of an operation', () => {
  const shown = createPercentFloor();
  expect([40, 30, 55].map((percent) => shown.raise('op_1', percent))).toEqual([40, 40, 55]);
  expect(shown.raise('op_2', 10)).toBe(10);
});

test('forgets finished operations', () => {
  const shown = createPercentFloor();
  shown.raise('op_1', 90);
  expect(shown.raise('op_1', 100)).toBe(100);
  expect(shown.raise('op_1', 5)).toBe(5);
});

test('bounds the number of entries', () => {
  const shown = createPercentFloor();
  for (let i = 0; i < 20_000; i++) shown.raise(`op_${i}`, 50);
  expect(shown.raise('op_0', 1)).toBe(50);
  shown.raise('one more', 50);
  expect(shown.raise('op_0', 1), 'it was asked for a moment ago').toBe(50);
  expect(shown.raise('op_1', 1), 'nobody asked for it since').toBe(1);
});
