import { describe, expect, it } from 'vitest';
import type { BootSample } from '../../../src/contract/boots.ts';
import { against, binsOf, marksOn, placeOf, scaleOf, secondsAt, tidySeconds } from './boots.ts';

const sample = (seconds: number, outcome: BootSample['outcome'] = 'completed') => ({ seconds, outcome }) as BootSample;

describe('boots on a chart', () => {
  const scale = scaleOf({ samples: [sample(2), sample(40)], budget_seconds: 720 });

  it('have room for the quickest, the slowest and the budget', () => {
    for (const seconds of [2, 40, 720]) {
      expect(placeOf(seconds, scale)).toBeGreaterThan(0);
      expect(placeOf(seconds, scale)).toBeLessThan(1);
    }
    expect(marksOn(scale)).toContain(600);
    expect(scaleOf({ samples: [], budget_seconds: 120 }).to).toBeGreaterThan(120);
  });
  it('are found again where they were put', () => {
    expect(secondsAt(placeOf(40, scale), scale)).toBeCloseTo(40);
    expect(placeOf(0, scale)).toBe(0);
    expect(placeOf(1e9, scale)).toBe(1);
  });
  it('are all in a bin, by how they ended', () => {
    const bins = binsOf([sample(2), sample(2.01), sample(40, 'late'), sample(720, 'timed_out')], scale);
    expect(bins.reduce((sum, { total }) => sum + total, 0)).toBe(4);
    expect(bins.filter(({ counts }) => counts.timed_out === 1)).toHaveLength(1);
  });
  it('stand on one side of a budget or the other, and those that never came on neither', () => {
    const samples = [sample(10), sample(20), sample(30, 'late'), sample(15, 'timed_out'), sample(1, 'cancelled')];
    expect(against(samples, 20)).toEqual({ boots: 5, in_time: 2, later: 1, never: 2 });
  });
  it('have budgets that a person would write down', () => {
    expect([0.234, 9.87, 43.21, 432.1, 4321].map(tidySeconds)).toEqual([0.2, 9.9, 43, 430, 4300]);
  });
});
