import { describe, expect, it } from 'vitest';
import { formatElapsed, formatPrecise, formatRange, formatRoughly } from './durations.ts';

describe('durations', () => {
  it.each([
    [-3, '0s'],
    [0.9, '0s'],
    [38.7, '38s'],
    [252, '4m 12s'],
    [3840, '1h 04m'],
    [273_600, '3d 4h'],
  ])('%s seconds elapsed are shown as %s', (seconds, words) => expect(formatElapsed(seconds)).toBe(words));

  it.each([
    [300, 600, '5–10 min'],
    [20, 45, '20–45 s'],
    [290, 310, '5 min'],
    [0.2, 0.9, '0.2–0.9 s'],
    [1800, 7200, '0.5–2 h'],
  ])('a range from %s to %s seconds is shown as %s', (low, high, words) => expect(formatRange(low, high)).toBe(words));

  it('rounds to one unit', () => {
    expect([5, 100, 720, 7200, 200_000].map(formatRoughly)).toEqual(['5 s', '2 min', '12 min', '2 h', '2 d']);
  });

  it('keeps the fraction of short durations', () => {
    expect([0.111, 11.32, 252].map(formatPrecise)).toEqual(['0.11s', '11.3s', '4m 12s']);
  });
});
