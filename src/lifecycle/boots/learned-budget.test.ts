import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  enoughForQuantile,
  type LearningQuestion,
  learnBudget,
  learnedReason,
  lessonOf,
  maxMovePerDay,
  minBootsToLearn,
} from './learned-budget.ts';
import type { TimedBoot } from './survival.ts';

const completed = (...times: number[]): TimedBoot[] => times.map((seconds) => ({ seconds, outcome: 'completed' }));
/** Completed boots with evenly spaced durations up to the largest. */
const evenly = (count: number, largest: number): TimedBoot[] =>
  completed(...Array.from({ length: count }, (_, at) => (largest * (at + 1)) / count));

const fixed_seconds = 720;
const baseQuestion: LearningQuestion = { boots: {}, fixed_seconds, current_seconds: fixed_seconds, recent_seconds: [] };
/** Expects the budget after many days without other changes, to within 5 %, the smallest move. */
function expectSettledAt(seconds: number, question: Partial<LearningQuestion>): void {
  let at = question.current_seconds ?? fixed_seconds;
  for (let day = 0; day < 100; day++) at = learnBudget({ ...baseQuestion, ...question, current_seconds: at }).seconds;
  expect(Math.abs(at - seconds) / at, `settled at ${at} s instead of ${seconds} s`).toBeLessThan(0.05);
}

describe('the lesson from boots', () => {
  it('needs a minimum of completed boots', () => {
    expect(lessonOf('make', evenly(minBootsToLearn - 1, 100))).toBeUndefined();
    const many: TimedBoot[] = Array.from({ length: 500 }, () => ({ seconds: 900, outcome: 'timed_out' }));
    expect(lessonOf('make', [...evenly(minBootsToLearn - 1, 100), ...many])).toBeUndefined();
  });

  it('uses the maximum with few boots and the 99th percentile with many', () => {
    expect(lessonOf('make', evenly(minBootsToLearn, 100))).toMatchObject({ basis: 'largest', basis_seconds: 100 });
    expect(lessonOf('make', evenly(enoughForQuantile - 1, 100))).toMatchObject({ basis: 'largest' });
    expect(lessonOf('make', evenly(enoughForQuantile, 100))).toMatchObject({ basis: 'p99', basis_seconds: 99 });
  });

  it('counts a late boot with its full time and ignores boots that never arrived', () => {
    const late: TimedBoot = { seconds: 400, outcome: 'late' };
    expect(lessonOf('make', [...evenly(40, 100), late])).toMatchObject({ basis_seconds: 400, completions: 41 });
    const timedOut: TimedBoot = { seconds: 720, outcome: 'timed_out' };
    const running: TimedBoot = { seconds: 50, outcome: 'running' };
    expect(lessonOf('make', [...evenly(40, 100), timedOut, running])).toMatchObject({
      basis_seconds: 100,
      completions: 40,
      boots: 42,
    });
  });

  it('uses the most similar stratum with enough boots', () => {
    const boots = { 'make-in-zone': evenly(10, 50), make: evenly(40, 100), pool: evenly(400, 2000) };
    expect(learnBudget({ ...baseQuestion, boots }).lesson?.stratum).toBe('make');
    expect(learnBudget({ ...baseQuestion, boots: { ...boots, 'make-in-zone': evenly(30, 50) } }).lesson?.stratum).toBe(
      'make-in-zone',
    );
  });
});

describe('the learned budget', () => {
  it('aims at 1.5 times the slowest boot, and moves by at most 25 % per day', () => {
    const boots = { make: evenly(40, 200) };
    expect(learnBudget({ ...baseQuestion, boots })).toMatchObject({ seconds: 540, aim_seconds: 300, limits: ['day'] });
    expectSettledAt(300, { boots });
  });

  it('moves back to its floor or ceiling even by a small step', () => {
    const slow = { boots: { make: evenly(40, 9000) }, ceiling_seconds: 3600 };
    const beyond = { ...baseQuestion, ...slow, fixed_seconds: 3700, current_seconds: 3700 };
    expect(learnBudget(beyond)).toMatchObject({ seconds: 3600, moved: true });
    expect(learnBudget({ ...beyond, current_seconds: 3600 })).toMatchObject({ seconds: 3600, moved: false });
    const quick = { ...baseQuestion, boots: { make: evenly(40, 2) }, current_seconds: 58 };
    expect(learnBudget(quick)).toMatchObject({ seconds: 60, moved: true });
  });

  it('respects a ceiling below the default floor', () => {
    const quick = { boots: { make: evenly(40, 2) }, ceiling_seconds: 30, fixed_seconds: 20, current_seconds: 20 };
    expect(learnBudget({ ...baseQuestion, ...quick })).toMatchObject({ aim_seconds: 30, seconds: 25 });
    expect(learnBudget({ ...baseQuestion, ...quick, floor_seconds: 10 }).aim_seconds).toBe(10);
  });

  it('stays between floor and ceiling', () => {
    expectSettledAt(60, { boots: { make: evenly(40, 2) } });
    expectSettledAt(10, { boots: { make: evenly(40, 2) }, floor_seconds: 10 });
    expectSettledAt(1500, { boots: { make: evenly(40, 2000) }, ceiling_seconds: 1500 });
    expectSettledAt(3600, { boots: { make: evenly(40, 9000) } });
    expectSettledAt(7200, { boots: { make: evenly(40, 9000) }, fixed_seconds: 7200, current_seconds: 7200 });
  });

  it.for(['pool', 'class'] as const)('is raised but never lowered by boots of the %s', (stratum) => {
    expectSettledAt(fixed_seconds, { boots: { [stratum]: evenly(400, 20) } });
    expectSettledAt(1485, { boots: { [stratum]: evenly(400, 1000) } });
  });

  it('returns to the fixed budget at the same rate when no boots are recorded any more', () => {
    expect(learnBudget({ ...baseQuestion, current_seconds: 300 })).toMatchObject({ seconds: 375, lesson: null });
    expectSettledAt(fixed_seconds, { current_seconds: 300 });
    expect(learnBudget({ ...baseQuestion, current_seconds: 715 }).seconds, 'the last small step').toBe(fixed_seconds);
  });

  it("keeps an operator's setting for a day", () => {
    const question = { ...baseQuestion, boots: { make: evenly(40, 100) }, set_today: true };
    const budget = learnBudget(question);
    expect(budget).toMatchObject({ seconds: fixed_seconds, moved: false, aim_seconds: 150, limits: ['operator'] });
    expect(learnedReason(budget, question)).toContain("(an operator's setting stays for a day)");
  });

  it('ignores moves below 5 %', () => {
    const boots = { make: evenly(40, 100) };
    expect(learnBudget({ ...baseQuestion, boots, current_seconds: 155 })).toMatchObject({ seconds: 155, moved: false });
    expect(learnBudget({ ...baseQuestion, boots, current_seconds: 160 })).toMatchObject({ seconds: 150, moved: true });
  });

  /** Any boot, including those that hostile nodes or clock jumps could record. */
  const anyBoot: fc.Arbitrary<TimedBoot> = fc.record({
    seconds: fc.double({ min: 0, max: 1e9, noNaN: true }),
    outcome: fc.constantFrom('completed', 'late', 'timed_out', 'cancelled', 'running'),
  });

  it('moves by at most 25 % in any day, whatever boots are reported', () => {
    const hour = fc.record({ boots: fc.array(anyBoot, { maxLength: 60 }), hours: fc.integer({ min: 1, max: 12 }) });
    fc.assert(
      fc.property(fc.array(hour, { maxLength: 30 }), fc.double({ min: 30, max: 3600, noNaN: true }), (hours, first) => {
        let at = 0;
        let seconds = first;
        const moves: { at: number; from: number; to: number }[] = [];
        for (const step of hours) {
          at += step.hours;
          const recent_seconds = moves.filter((move) => move.at > at - 24).flatMap(({ from, to }) => [from, to]);
          const boots = { make: [...step.boots, ...evenly(30, 100)] };
          const next = learnBudget({ ...baseQuestion, boots, current_seconds: seconds, recent_seconds }).seconds;
          if (next !== seconds) moves.push({ at, from: seconds, to: next });
          for (const former of [seconds, ...recent_seconds]) {
            expect(next).toBeLessThanOrEqual(Math.max(seconds, former * (1 + maxMovePerDay)) + 1e-9);
            expect(next).toBeGreaterThanOrEqual(Math.min(seconds, former * (1 - maxMovePerDay)) - 1e-9);
          }
          seconds = next;
        }
      }),
    );
  });

  it('does not change after one false report among 400 boots, or after a mass outage', () => {
    const honest = evenly(399, 100);
    const lie: TimedBoot = { seconds: 1e6, outcome: 'late' };
    expectSettledAt(150, { boots: { make: [...honest, lie] }, current_seconds: 150 });
    const outage: TimedBoot[] = Array.from({ length: 400 }, () => ({ seconds: 150, outcome: 'timed_out' }));
    expectSettledAt(150, { boots: { make: [...evenly(100, 100), ...outage] }, current_seconds: 150 });
  });
});

describe('the reason', () => {
  const reasonFor = (question: Partial<LearningQuestion>) => {
    const whole = { ...baseQuestion, ...question };
    return learnedReason(learnBudget(whole), whole);
  };

  it('names the boots, their time and the limits', () => {
    expect(reasonFor({ boots: { make: evenly(40, 200) } })).toBe(
      "of 40 completed boots of the pool's current image and spec, the slowest took 200 s; plus a margin of 50 % that is 300 s, so the target is 300 s (at most 25 % in a day)",
    );
    expect(reasonFor({ boots: { pool: evenly(300, 100) } })).toBe(
      'of 300 completed boots of the pool, including former images and specs, 99 in 100 took at most 99 s; plus a margin of 50 % that is 149 s, so the target is 720 s (boots of other pools or images never lower it)',
    );
  });

  it('says how many boots are missing', () => {
    expect(reasonFor({ boots: { make: evenly(12, 100) } })).toBe(
      '12 of the required 30 completed boots are recorded, so the fixed budget of 720 s applies',
    );
  });
});
