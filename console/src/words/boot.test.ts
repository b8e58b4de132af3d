import { describe, expect, it } from 'vitest';
import { placeStages } from './boot.ts';

describe('boot stages', () => {
  it('follow one another, and nested ones run inside their parent', () => {
    const { bars, total_seconds } = placeStages([
      { name: 'pull', seconds: 100 },
      { name: 'set-up', seconds: 300 },
      { name: 'drivers', seconds: 200, parent: 'set-up' },
      { name: 'weights', seconds: 100, parent: 'set-up' },
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

  it('stand where their own times put them', () => {
    const { bars } = placeStages([
      { name: 'a', seconds: 10, started_at: '2026-01-01T00:00:00Z' },
      { name: 'b', seconds: 10, started_at: '2026-01-01T00:00:30Z' },
    ]);
    expect(bars.map(({ from_percent }) => from_percent)).toEqual([0, 75]);
  });

  it('of no length and of confused families are still shown', () => {
    const { bars } = placeStages([
      { name: 'a', seconds: 0, parent: 'b' },
      { name: 'b', seconds: 0, parent: 'a' },
    ]);
    for (const bar of bars) {
      expect(bar.width_percent).toBeGreaterThan(0);
      expect(Number.isFinite(bar.from_percent)).toBe(true);
    }
    expect(placeStages([])).toEqual({ bars: [], total_seconds: 0 });
  });
});
