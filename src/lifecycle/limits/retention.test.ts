import { describe, expect, it } from 'vitest';
import { defaultKeepSeconds, midnightAfter, partitionSeconds } from './retention.ts';

const day = 24 * 3600;

it('keeps decisions longer than reports of machines', () => {
  const { node, rule, api, operator } = defaultKeepSeconds;
  expect([rule, api, operator]).toEqual([400 * day, 400 * day, 400 * day]);
  expect(node).toBe(90 * day);
});

describe('a partition', () => {
  it.each([
    ['a day at least', 60, day],
    ['a quarter of the time, in whole days', 90 * day, 23 * day],
    ['and of what divides evenly no more', 8 * day, 2 * day],
    ['a year at most', 10 * 365 * day, 365 * day],
  ])('spans %s', (_, kept, wide) => {
    expect(partitionSeconds(kept)).toBe(wide);
  });

  it('begins at the next midnight', () => {
    const midnight = Date.parse('2030-01-02T00:00:00Z');
    expect(midnightAfter(new Date('2030-01-01T00:00:00.001Z'))).toBe(midnight);
    expect(midnightAfter(new Date('2030-01-01T23:59:59Z'))).toBe(midnight);
    expect(midnightAfter(new Date(midnight))).toBe(midnight + day * 1000);
  });
});
