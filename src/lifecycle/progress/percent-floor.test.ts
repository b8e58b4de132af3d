import { expect, test } from 'vitest';
import { createPercentFloor } from './percent-floor.ts';

test('never lowers the percentage of an operation', () => {
  const floor = createPercentFloor();
  expect([40, 30, 55].map((percent) => floor.raise('op_1', percent))).toEqual([40, 40, 55]);
  expect(floor.raise('op_2', 10)).toBe(10);
});

test('forgets finished operations', () => {
  const floor = createPercentFloor();
  floor.raise('op_1', 90);
  expect(floor.raise('op_1', 100)).toBe(100);
  expect(floor.raise('op_1', 5)).toBe(5);
});

test('bounds the number of entries', () => {
  const floor = createPercentFloor();
  for (let i = 0; i < 20_000; i++) floor.raise(`op_${i}`, 50);
  expect(floor.raise('op_0', 1)).toBe(50);
  floor.raise('one more', 50);
  expect(floor.raise('op_0', 1), 'op_0 was used recently').toBe(50);
  expect(floor.raise('op_1', 1), 'op_1 was evicted as the least recently used').toBe(1);
});
