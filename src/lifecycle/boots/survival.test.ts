import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quantileOf, survivalCurve, type TimedBoot } from './survival.ts';

const boot = (seconds: number, outcome: TimedBoot['outcome'] = 'completed'): TimedBoot => ({ seconds, outcome });

describe('the survival curve of boots', () => {
  it('falls at each arrival by its share of the boots at risk', () => {
    expect(survivalCurve([boot(30), boot(10), boot(20, 'cancelled'), boot(40, 'late')])).toEqual([
      { seconds: 0, share: 1 },
      { seconds: 10, share: 0.75 },
      { seconds: 30, share: 0.375 },
      { seconds: 40, share: 0 },
    ]);
  });
  it('counts simultaneous arrivals in one step', () => {
    expect(survivalCurve([boot(10), boot(10), boot(10, 'timed_out'), boot(20)])).toMatchObject([
      {},
      { seconds: 10, share: 0.5 },
      { seconds: 20, share: 0 },
    ]);
  });
  it('is computed even if durations are NaN', () => {
    expect(survivalCurve([boot(10), boot(Number.NaN), boot(Number.NaN, 'timed_out'), boot(20)])).toHaveLength(3);
    expect(survivalCurve([boot(Number.NaN)])).toHaveLength(2);
  });
  it('never rises, and stays between 1 and 0', () => {
    const outcome = fc.constantFrom('completed', 'late', 'timed_out', 'cancelled');
    const boots = fc.array(fc.record({ seconds: fc.integer({ min: 0, max: 50 }), outcome }));
    fc.assert(
      fc.property(boots, (some) => {
        const shares = survivalCurve(some as TimedBoot[]).map(({ share }) => share);
        expect(shares).toEqual(shares.toSorted((a, b) => b - a));
        expect(Math.min(...shares)).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

describe('quantiles of boots', () => {
  it('are those of completing boots, whatever share never completes', () => {
    const ten = Array.from({ length: 10 }, (_, i) => boot((i + 1) * 10));
    const curve = survivalCurve([...ten, boot(1000, 'timed_out'), boot(1000, 'timed_out')]);
    expect(quantileOf(curve, 0.5)).toBe(50);
    expect(quantileOf(curve, 0.9)).toBe(90);
    expect(quantileOf(curve, 0.99)).toBe(100);
  });
  it('are unknown before the first completion', () => {
    expect(quantileOf(survivalCurve([boot(5, 'timed_out')]), 0.5)).toBeNull();
    expect(quantileOf([], 0.5)).toBeNull();
  });
});
