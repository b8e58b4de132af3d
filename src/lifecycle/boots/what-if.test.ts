import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { estimateSurvival, hasArrived, type TimedBoot } from './survival.ts';
import { falseKillShare, whatIf } from './what-if.ts';

const boots: fc.Arbitrary<TimedBoot[]> = fc.array(
  fc.record({
    seconds: fc.integer({ min: 0, max: 2000 }),
    outcome: fc.constantFrom('completed', 'late', 'timed_out', 'cancelled', 'running'),
  }),
  { maxLength: 40 },
);
const seconds = fc.integer({ min: 1, max: 2500 });

describe('another budget', () => {
  it('names the boot it would have failed, and whether it would have been rescued', () => {
    const slow = { node_id: 'slow', seconds: 423, outcome: 'completed' as const };
    const quick = { node_id: 'quick', seconds: 90, outcome: 'completed' as const };
    const stuck = { node_id: 'stuck', seconds: 720, outcome: 'timed_out' as const };
    const cancelled = { node_id: 'cancelled', seconds: 500, outcome: 'cancelled' as const };
    expect(whatIf([slow, quick, stuck, cancelled], { budget_seconds: 400, rescue_seconds: 0 })).toEqual({
      boots: 4,
      arrived: 2,
      false_kills: [{ boot: slow, over_seconds: 23, rescued: false }],
      rescued: 0,
      stuck: [{ boot: stuck, sooner_seconds: 320 }],
      stuck_found_sooner_seconds: 320,
      undecided: 1,
    });
    expect(whatIf([slow], { budget_seconds: 400, rescue_seconds: 200 })).toMatchObject({ rescued: 1 });
    expect(whatIf([slow], { budget_seconds: 423, rescue_seconds: 0 })).toMatchObject({ false_kills: [] });
    expect(whatIf([stuck], { budget_seconds: 900, rescue_seconds: 0 }).stuck_found_sooner_seconds).toBe(-180);
  });

  it('fails no more boots and finds stuck ones no sooner when it is larger', () => {
    fc.assert(
      fc.property(boots, seconds, seconds, (all, one, other) => {
        const [small, large] = [Math.min(one, other), Math.max(one, other)].map((budget_seconds) =>
          whatIf(all, { budget_seconds, rescue_seconds: 60 }),
        );
        expect(large?.false_kills.length).toBeLessThanOrEqual(small?.false_kills.length ?? 0);
        expect(large?.stuck_found_sooner_seconds ?? 0).toBeLessThanOrEqual(small?.stuck_found_sooner_seconds ?? 0);
      }),
    );
  });

  it('counts every boot in exactly one group', () => {
    fc.assert(
      fc.property(boots, seconds, (all, budget_seconds) => {
        const result = whatIf(all, { budget_seconds, rescue_seconds: 60 });
        const inTime = all.filter((boot) => boot.outcome !== 'timed_out' && boot.seconds <= budget_seconds).length;
        expect(result.false_kills.length + result.stuck.length + result.undecided + inTime).toBe(all.length);
        expect(result.false_kills.every(({ boot }) => hasArrived(boot) && boot.seconds > budget_seconds)).toBe(true);
      }),
    );
  });
});

describe('the share of boots that a budget would fail', () => {
  it('is null before the first arrival, and lies within its band', () => {
    fc.assert(
      fc.property(boots, seconds, (all, budget_seconds) => {
        const result = falseKillShare(estimateSurvival(all), budget_seconds);
        expect(result === null).toBe(!all.some(hasArrived));
        if (!result) return;
        expect(result.low).toBeLessThanOrEqual(result.share);
        expect(result.high).toBeGreaterThanOrEqual(result.share);
        if (all.every(({ seconds: took }) => took <= budget_seconds)) expect(result.share).toBe(0);
      }),
    );
  });

  it('equals the plain share without censoring', () => {
    const all: TimedBoot[] = Array.from({ length: 200 }, (_, at) => ({ seconds: at + 1, outcome: 'completed' }));
    expect(falseKillShare(estimateSurvival(all), 190)?.share).toBeCloseTo(0.05, 12);
    expect(falseKillShare([], 10)).toBeNull();
  });
});
