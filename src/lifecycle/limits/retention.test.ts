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
    ['at least a day', 60, day],
    ['a quarter of the retention, rounded up to whole days', 90 * day, 23 * day],
    ['exactly a quarter of the retention if that is whole days', 8 * day, 2 * day],
    ['at most a year', 10 * 365 * day, 365 * day],
  ])('spans %s', (_, retention, width) => {
    expect(partitionSeconds(retention)).toBe(width);
  });

  it('begins at the next midnight', () => {
    const midnight = Date.parse('2030-01-02T00:00:00Z');
    expect(midnightAfter(new Date('2030-01-01T00:00:00.001Z'))).toBe(midnight);
    expect(midnightAfter(new Date('2030-01-01T23:59:59Z'))).toBe(midnight);
    expect(midnightAfter(new Date(midnight))).toBe(midnight + day * 1000);
  });
});
