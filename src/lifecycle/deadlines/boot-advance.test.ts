import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AdvancingPhase, deadlineAfterAdvance, silenceSeconds } from './boot-advance.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const budget = 720;
const silence = budget / 4;
const ceiling = 2 * budget;

const boot = (overrides: Partial<AdvancingPhase> = {}): AdvancingPhase => ({
  status: 'provisioning',
  clock_from: at(0),
  budget_seconds: budget,
  deadline_at: at(budget),
  progress_aware: true,
  ...overrides,
});
const advancedAt = (now: number, overrides: Partial<AdvancingPhase> = {}) =>
  deadlineAfterAdvance(boot(overrides), at(now));

describe('the allowed silence', () => {
  test('is a quarter of the budget, at least a minute', () => {
    expect(silenceSeconds(720)).toBe(180);
    expect(silenceSeconds(240)).toBe(60);
    expect(silenceSeconds(100)).toBe(60);
  });

  test("is the pool's setting if there is one, however short", () => {
    expect(silenceSeconds(720, 2)).toBe(2);
    expect(silenceSeconds(720, 0)).toBe(0);
  });
});

describe('a progress-aware boot with progress', () => {
  test('gets a new deadline, before or after the end of its budget', () => {
    expect(advancedAt(10)).toEqual(at(10 + silence));
    expect(advancedAt(budget)).toEqual(at(budget + silence));
  });

  test('gets at most twice its budget', () => {
    expect(advancedAt(ceiling - silence - 1)).toEqual(at(ceiling - 1));
    expect(advancedAt(ceiling - silence + 1)).toEqual(at(ceiling));
    expect(advancedAt(ceiling - 1)).toEqual(at(ceiling));
  });

  test('keeps its deadline if the new one is equal', () => {
    expect(advancedAt(10, { deadline_at: at(10 + silence) })).toBeUndefined();
    expect(advancedAt(ceiling - 1, { deadline_at: at(ceiling) })).toBeUndefined();
  });

  test("uses the pool's setting", () => {
    expect(advancedAt(10, { silence_seconds: 5 })).toEqual(at(15));
  });
});

test('a boot in a pool that is not progress-aware keeps its deadline', () => {
  expect(advancedAt(10, { progress_aware: false })).toBeUndefined();
  expect(advancedAt(budget - 1, { progress_aware: false })).toBeUndefined();
});

describe.for([true, false])('start-up with progress (progress_aware: %s)', (progress_aware) => {
  const start = 120;
  const starting = (now: number, overrides: Partial<AdvancingPhase> = {}) =>
    advancedAt(now, {
      status: 'starting',
      budget_seconds: start,
      deadline_at: at(start),
      progress_aware,
      ...overrides,
    });

  test('gets a later deadline with each progress', () => {
    expect(starting(100)).toEqual(at(100 + start));
  });

  test('gets at most twice its budget', () => {
    expect(starting(start + 10, { deadline_at: at(start + 11) })).toEqual(at(2 * start));
    expect(starting(start + 10, { deadline_at: at(2 * start) })).toBeUndefined();
  });

  test('never gets an earlier deadline, so that no machine is promoted early', () => {
    expect(starting(0)).toBeUndefined();
    expect(starting(5, { silence_seconds: 1 })).toEqual(at(5 + start));
    expect(starting(5, { deadline_at: at(1000) })).toBeUndefined();
  });
});

test('no progress moves a deadline past twice the budget', () => {
  const seconds = fc.integer({ min: 1, max: 5000 });
  const phases: fc.Arbitrary<AdvancingPhase> = fc.record({
    status: fc.constantFrom('provisioning' as const, 'starting' as const),
    clock_from: fc.constant(at(0)),
    budget_seconds: seconds,
    deadline_at: seconds.map(at),
    progress_aware: fc.boolean(),
    silence_seconds: fc.option(seconds, { nil: undefined }),
  });
  fc.assert(
    fc.property(phases, seconds, (phase, now) => {
      const next = deadlineAfterAdvance(phase, at(now));
      if (!next) return;
      expect(next.getTime()).toBeLessThanOrEqual(at(2 * phase.budget_seconds).getTime());
      if (phase.status === 'starting') expect(next.getTime()).toBeGreaterThan(phase.deadline_at.getTime());
    }),
  );
});
