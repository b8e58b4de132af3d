import { describe, expect, it } from 'vitest';
import type { BootSample } from '../../../../src/contract/supervision/boots.ts';
import { bandPath, binsOf, curvePath, curveWords, nudge, scaleOf, tidySeconds } from './chart-geometry.ts';

const sample = (seconds: number, outcome: BootSample['outcome'] = 'completed') => ({ seconds, outcome }) as BootSample;

describe('boots on a chart', () => {
  const scale = scaleOf({ samples: [sample(2), sample(40)], budget_seconds: 720 });

  it('are each counted in one bin, by outcome', () => {
    const bins = binsOf([sample(2), sample(2.01), sample(40, 'late'), sample(720, 'timed_out')], scale);
    expect(bins.reduce((sum, { total }) => sum + total, 0)).toBe(4);
    expect(bins.filter(({ counts }) => counts.timed_out === 1)).toHaveLength(1);
  });
  it('are described by the quantiles that are known', () => {
    expect(curveWords({ p50_seconds: 100, p99_seconds: 180 })).toContain(
      'half arrived within 100 s, 99 of 100 within 180 s',
    );
    expect(curveWords({ p50_seconds: 100, p99_seconds: null })).toMatch(/half arrived within 100 s$/);
    expect(curveWords({ p50_seconds: null, p99_seconds: null })).toMatch(/none has arrived yet$/);
  });
  it('form a step curve inside its band', () => {
    const drawing = { width: 100, height: 10, scale: { from: 1, to: 100 } };
    const steps = [
      { seconds: 0, share: 1, low: 1, high: 1 },
      { seconds: 10, share: 0.5, low: 0.2, high: 0.8 },
    ];
    expect(curvePath(steps, drawing)).toBe('M0,0H0.0V0.0H50.0V5.0H100');
    expect(bandPath(steps, drawing)).toBe('M0,0H0.0V0.0H50.0V2.0H100V8.0H50.0V0.0H0.0V0Z');
    expect(curvePath([], drawing)).toBe('M0,0H100');
  });
});

describe('moving a budget', () => {
  it('rounds to tenths below ten seconds, and to two significant digits above', () => {
    expect([0.234, 9.87, 43.21, 432.1, 4321].map(tidySeconds)).toEqual([0.2, 9.9, 43, 430, 4300]);
  });
  it.each([
    [423, 1, 430],
    [423, -1, 420],
    [100, 1, 110],
    [100, -1, 99],
    [0.5, 1, 0.6],
    [0.1, -1, 0.1],
    [720, -5, 670],
  ])('%d by %d steps is %d', (seconds, steps, to) => expect(nudge(seconds, steps)).toBe(to));
});
