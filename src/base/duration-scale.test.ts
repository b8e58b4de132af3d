import { describe, expect, it } from 'vitest';
import { marksOn, placeOf, scaleOver, secondsAt } from './duration-scale.ts';

describe('a scale of durations', () => {
  const scale = scaleOver([2, 40, 720]);

  it('covers all durations with a margin on both sides', () => {
    for (const seconds of [2, 40, 720]) {
      expect(placeOf(seconds, scale)).toBeGreaterThan(0);
      expect(placeOf(seconds, scale)).toBeLessThan(1);
    }
    expect(marksOn(scale)).toEqual([2, 5, 10, 20, 30, 60, 120, 300, 600]);
    expect(scaleOver([120]).to).toBeGreaterThan(120);
  });
  it('converts seconds to a place and back, and clamps durations beyond its ends', () => {
    expect(secondsAt(placeOf(40, scale), scale)).toBeCloseTo(40);
    expect(placeOf(0, scale)).toBe(0);
    expect(placeOf(1e9, scale)).toBe(1);
  });
  it('has default ends without durations', () => {
    expect(scaleOver([])).toEqual({ from: 0.1, to: 1 });
  });
});
