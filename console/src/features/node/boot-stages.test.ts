import { describe, expect, it } from 'vitest';
import { placeStages } from './boot-stages.ts';

describe('boot stages', () => {
  it('are placed at their start time, with nested stages inside their parent', () => {
    const { bars, total_seconds } = placeStages([
      { name: 'pull', seconds: 100, starts_seconds: 0, usual_seconds: 20 },
      { name: 'set-up', seconds: 300, starts_seconds: 100, usual_seconds: null },
      { name: 'drivers', seconds: 200, parent: 'set-up', starts_seconds: 100, usual_seconds: 900 },
      { name: 'weights', seconds: 100, parent: 'set-up', starts_seconds: 300, usual_seconds: 100 },
    ]);
    expect(total_seconds).toBe(400);
    expect(
      bars.map(({ name, depth, from_percent, width_percent }) => [name, depth, from_percent, width_percent]),
    ).toEqual([
      ['pull', 0, 0, 25],
      ['set-up', 0, 25, 75],
      ['drivers', 1, 25, 50],
      ['weights', 1, 75, 25],
    ]);
  });

  it('show the usual duration, cut off at the end of the scale', () => {
    const { bars } = placeStages([
      { name: 'pull', seconds: 100, starts_seconds: 0, usual_seconds: 20 },
      { name: 'new', seconds: 100, starts_seconds: 100, usual_seconds: null },
      { name: 'fast', seconds: 200, starts_seconds: 200, usual_seconds: 900 },
    ]);
    expect(bars.map(({ usual_seconds, usual_percent }) => [usual_seconds, usual_percent])).toEqual([
      [20, 5],
      [null, null],
      [900, 50],
    ]);
  });

  it('are shown even without a duration or with a cyclic parent', () => {
    const { bars } = placeStages([
      { name: 'a', seconds: 0, parent: 'b', starts_seconds: 0, usual_seconds: null },
      { name: 'b', seconds: 0, parent: 'a', starts_seconds: 0, usual_seconds: null },
    ]);
    for (const bar of bars) {
      expect(bar.width_percent).toBeGreaterThan(0);
      expect(Number.isFinite(bar.from_percent)).toBe(true);
    }
    expect(placeStages([])).toEqual({ bars: [], total_seconds: 0 });
  });
});
