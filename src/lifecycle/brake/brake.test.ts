import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type BrakeSettings,
  decideBrake,
  defaultBrakePolicy,
  defaultBrakeSettings,
  isMassFailure,
  type PhaseCounts,
  resumeRate,
  resumeTime,
  storedThroughOf,
} from './brake.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const now = at(0);

const decide = (
  counts: Partial<PhaseCounts>,
  hold?: { held_until: Date; resumed: boolean },
  settings = defaultBrakeSettings,
) => decideBrake({ due: 0, recent: 0, population: 100, ...counts }, defaultBrakePolicy, settings, hold, now);

test('has the documented defaults', () => {
  expect(defaultBrakePolicy).toEqual({ fraction: 0.2, min_nodes: 5 });
  expect(defaultBrakeSettings).toEqual({
    window_seconds: 60,
    self_fault_seconds: 10 * 60,
    mass_failure_seconds: 60 * 60,
    resume_fraction: 0.05,
  });
});

describe('a mass failure', () => {
  test.for([
    { of: 100, is: 21, not: 20 },
    { of: 1000, is: 201, not: 200 },
    // Fewer than five machines are never a mass failure.
    { of: 10, is: 5, not: 4 },
    { of: 5, is: 5, not: 4 },
  ])('of $of machines starts at $is, not at $not', ({ of, is, not }) => {
    expect(isMassFailure(is, of, defaultBrakePolicy)).toBe(true);
    expect(isMassFailure(not, of, defaultBrakePolicy)).toBe(false);
  });

  test("follows the pool's policy", () => {
    expect(isMassFailure(2, 4, { fraction: 0.4, min_nodes: 2 })).toBe(true);
    expect(isMassFailure(2, 5, { fraction: 0.4, min_nodes: 2 })).toBe(false);
    expect(isMassFailure(2, 4, { fraction: 0.4, min_nodes: 3 })).toBe(false);
  });
});

describe('the brake', () => {
  test('allows verdicts below the threshold', () => {
    expect(decide({ due: 20 })).toEqual({ allow: 'all' });
    expect(decide({})).toEqual({ allow: 'all' });
  });

  test('holds all verdicts in a mass failure, for the configured time', () => {
    const held = { allow: 'none', held_until: at(defaultBrakeSettings.mass_failure_seconds), opens: true };
    expect(decide({ due: 21 })).toEqual(held);
    expect(decide({ due: 60 })).toEqual(held);
  });

  test('counts recent verdicts and due ones together', () => {
    expect(decide({ due: 1, recent: 19 })).toEqual({ allow: 'all' });
    expect(decide({ due: 1, recent: 20 })).toMatchObject({ allow: 'none', opens: true });
  });

  test('keeps the end of a hold, however many verdicts are due', () => {
    const hold = { held_until: at(10), resumed: false };
    for (const due of [0, 1, 90])
      expect(decide({ due }, hold)).toEqual({ allow: 'none', held_until: at(10), opens: false });
  });

  test('allows all verdicts once an operator has ended the hold', () => {
    expect(decide({ due: 90 }, { held_until: at(10), resumed: true })).toEqual({ allow: 'all' });
  });

  test('resumes at a limited rate when the hold has ended', () => {
    const over = { held_until: now, resumed: false };
    expect(decide({ due: 90 }, over)).toEqual({ allow: 'some', now: 5, per_minute: 5 });
    expect(decide({ due: 90, recent: 3 }, over)).toEqual({ allow: 'some', now: 2, per_minute: 5 });
    expect(decide({ due: 90, recent: 50 }, over)).toEqual({ allow: 'some', now: 0, per_minute: 5 });
  });
});

describe('the rate after a hold', () => {
  test.for([
    [1000, 50],
    [100, 5],
    [39, 1],
    [20, 1],
    [3, 1],
    [0, 1],
  ] as const)('of %i machines is %i a minute', ([population, pace]) => {
    expect(resumeRate(population, defaultBrakeSettings)).toBe(pace);
  });

  test('sets the time at which each held verdict is written', () => {
    expect([0, 4, 5, 9, 10].map((place) => resumeTime(place, 5, now))).toEqual([
      at(60),
      at(60),
      at(120),
      at(120),
      at(180),
    ]);
  });
});

test('every hold ends, and then at least one verdict per minute goes through', () => {
  const counts = fc.nat({ max: 5000 });
  const settings: fc.Arbitrary<BrakeSettings> = fc.record({
    window_seconds: fc.constant(60),
    self_fault_seconds: fc.integer({ min: 1, max: 600 }),
    mass_failure_seconds: fc.integer({ min: 1, max: 3600 }),
    resume_fraction: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.record({ due: counts, recent: counts, population: counts }), settings, (phase, brakeSettings) => {
      const begun = decideBrake(phase, defaultBrakePolicy, brakeSettings, undefined, now);
      if (begun.allow !== 'none') return;
      expect(begun.held_until.getTime() - now.getTime()).toBe(brakeSettings.mass_failure_seconds * 1000);
      const after = decideBrake(
        { ...phase, recent: 0 },
        defaultBrakePolicy,
        brakeSettings,
        { ...begun, resumed: false },
        begun.held_until,
      );
      expect(after).toMatchObject({ allow: 'some', now: resumeRate(phase.population, brakeSettings) });
      expect(resumeRate(phase.population, brakeSettings)).toBeGreaterThanOrEqual(1);
    }),
  );
});

describe('all heartbeats count as stored', () => {
  test('up to the flush of the slowest replica', () => {
    expect(storedThroughOf(at(-3), defaultBrakeSettings, now)).toEqual(at(-3));
  });

  test('up to ten minutes ago at least, so that a hung replica cannot hold verdicts forever', () => {
    expect(storedThroughOf(at(-601), defaultBrakeSettings, now)).toEqual(at(-600));
    expect(storedThroughOf(null, defaultBrakeSettings, now)).toEqual(at(-600));
    expect(storedThroughOf(null, { ...defaultBrakeSettings, self_fault_seconds: 5 }, now)).toEqual(at(-5));
  });
});
