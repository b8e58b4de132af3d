import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { StepStatus } from '../model/states.ts';
import { minSamples, minStallSeconds, plannedHistory, quantileShares } from './expectation.ts';
import {
  type ComputedProgress,
  explainNoEstimate,
  type ProgressFacts,
  progressOf,
  type StepFacts,
} from './progress.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);

const step = (ordinal: number, status: StepStatus, usual: number | null, started: number | null): StepFacts => ({
  ordinal,
  name: `step-${ordinal}`,
  label: `Step ${ordinal}`,
  status,
  usual_seconds: usual,
  expected: null,
  started_at: started === null ? null : at(started),
  retry_at: null,
  tries: 1,
  error: null,
});

const facts = (steps: StepFacts[], now: number, overrides: Partial<ProgressFacts> = {}): ProgressFacts => ({
  status: 'running',
  steps,
  started_at: at(0),
  finished_at: null,
  created_at: at(0),
  advanced_at: null,
  retry_at: null,
  patient_until: null,
  failing_since: null,
  failed_seconds: 0,
  percent: 0,
  now: at(now),
  ...overrides,
});

/**
 * Events of an operation: time passes, or the current step starts, fails, restarts after a crash,
 * or ends.
 */
type OperationEvent = { kind: 'wait'; seconds: number } | { kind: 'start' | 'retry' | 'restart' | 'done' | 'skip' };
const events: fc.Arbitrary<OperationEvent[]> = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('wait' as const), seconds: fc.double({ min: 0, max: 5000, noNaN: true }) }),
    fc.record({
      kind: fc.constantFrom('start' as const, 'retry' as const, 'restart' as const, 'done' as const, 'skip' as const),
    }),
  ),
  { maxLength: 60 },
);
const plans = fc.array(fc.option(fc.double({ min: 0.01, max: 4000, noNaN: true })), { minLength: 1, maxLength: 8 });

/** Keeps a step's first start through retries and restarts, as the store does. */
function apply(steps: StepFacts[], event: OperationEvent, now: number): void {
  const current = steps.find((each) => each.status !== 'done' && each.status !== 'skipped');
  if (!current || event.kind === 'wait') return;
  if (event.kind === 'skip') current.status = 'skipped';
  else if (event.kind === 'done') current.status = 'done';
  else {
    current.status = event.kind === 'retry' ? 'waiting' : 'running';
    current.started_at ??= at(now);
  }
}

const isAscending = (values: number[]) => values.every((value, i) => i === 0 || value >= (values[i - 1] ?? 0));

test('never decreases and reaches 100 only on success', () => {
  fc.assert(
    fc.property(plans, events, (usual, history) => {
      const steps = usual.map((seconds, i) => step(i + 1, 'pending', seconds, null));
      let now = 0;
      const seen: ComputedProgress[] = [progressOf(facts(steps, now))];
      for (const event of history) {
        if (event.kind === 'wait') now += event.seconds;
        apply(steps, event, now);
        seen.push(progressOf(facts(steps, now)));
      }
      const percents = seen.map((progress) => progress.percent);
      expect(isAscending(percents), percents.join(' ')).toBe(true);
      expect(isAscending(seen.map((progress) => progress.step))).toBe(true);
      expect(Math.max(...percents)).toBeLessThan(100);
      expect(Math.min(...percents)).toBeGreaterThanOrEqual(0);
      const ended = progressOf(facts(steps, now, { status: 'succeeded', finished_at: at(now) }));
      expect(ended).toMatchObject({ percent: 100, phase: 'completed' });
    }),
    { numRuns: 300 },
  );
});

test('advances within a step without reaching its end', () => {
  const steps = [step(1, 'running', 10, 0), step(2, 'pending', 10, null)];
  const early = progressOf(facts(steps, 1)).percent;
  const later = progressOf(facts(steps, 8)).percent;
  const endless = progressOf(facts(steps, 1e6)).percent;
  expect(early).toBeGreaterThan(0);
  expect(later).toBeGreaterThan(early);
  expect(endless).toBeLessThan(50);
});

test('weighs a step by its usual duration', () => {
  const steps = [step(1, 'done', 90, 0), step(2, 'pending', 10, null)];
  expect(progressOf(facts(steps, 90)).percent).toBe(90);
});

test('counts a skipped step as done', () => {
  const steps = [step(1, 'skipped', 30, null), step(2, 'pending', 70, null)];
  expect(progressOf(facts(steps, 1))).toMatchObject({ percent: 30, step: 2, phase: 'step-2', label: 'Step 2' });
});

test('weighs a step without an estimate as five seconds', () => {
  const steps = [step(1, 'done', null, 0), step(2, 'pending', 15, null)];
  expect(progressOf(facts(steps, 5)).percent).toBe(25);
});

test('shows 60 % of a step after its estimated duration', () => {
  for (const [usual, expected] of [
    [10, 10],
    [1000, 1000],
    [null, 5],
    // A step that takes no time still has the minimum weight.
    [0, 0.5],
  ] as const)
    expect(progressOf(facts([step(1, 'running', usual, 0)], expected)).percent).toBeCloseTo(95 * (1 - Math.exp(-1)), 0);
});

test('keeps the percentage of a failed operation', () => {
  const steps = [step(1, 'done', 10, 0), step(2, 'failed', 10, 10), step(3, 'pending', 10, null)];
  const overrides = { status: 'failed' as const, finished_at: at(15) };
  const atFailure = progressOf(facts(steps, 15, overrides));
  expect(progressOf(facts(steps, 5000, overrides))).toEqual(atFailure);
  expect(atFailure).toMatchObject({
    phase: 'step-2',
    step: 2,
    total_steps: 3,
    elapsed_seconds: 15,
    step_elapsed_seconds: 5,
  });
});

test('shows 0 % of an operation without steps until it succeeds', () => {
  expect(progressOf(facts([], 5, { status: 'queued' }))).toMatchObject({
    percent: 0,
    phase: 'queued',
    step: 0,
    label: '',
  });
  expect(progressOf(facts([], 5, { status: 'succeeded' })).percent).toBe(100);
});

test('shows no negative time if the clock is before the start', () => {
  expect(progressOf(facts([step(1, 'running', 5, 100)], 50, { started_at: at(100) }))).toMatchObject({
    elapsed_seconds: 0,
    step_elapsed_seconds: 0,
    percent: 0,
  });
});

const history = (samples: number, p50: number, p90: number) => ({
  samples,
  // Evenly up to the median, evenly from there to the 90th percentile, and beyond.
  quantiles: quantileShares.map((share) =>
    share <= 0.5 ? (share / 0.5) * p50 : p50 + ((share - 0.5) / 0.4) * (p90 - p50),
  ),
});
const known = (ordinal: number, status: StepStatus, p50: number, p90: number, started: number | null) => ({
  ...step(ordinal, status, 1, started),
  expected: history(40, p50, p90),
});

test('weighs a step by its history, with 70 % at the median and 90 % at the 90th percentile', () => {
  const steps = [known(1, 'running', 80, 160, 0), known(2, 'pending', 20, 30, null)];
  expect(progressOf(facts(steps, 80)).percent).toBe(56);
  expect(progressOf(facts(steps, 160)).percent).toBe(72);
  expect(progressOf(facts(steps, 1e6)).percent).toBe(76);
});

test('shows expectations only from recorded runs', () => {
  const steps = [known(1, 'running', 80, 160, 0), step(2, 'pending', 20, null)];
  expect(progressOf(facts(steps, 1)).expected).toEqual({ p50_seconds: 80, p90_seconds: 160, samples: 40 });
  expect(progressOf(facts([step(1, 'running', 80, 0)], 1))).toMatchObject({
    expected: null,
    eta_seconds: null,
    slower_than: null,
    stalled: false,
  });
});

test("uses the provider's estimates until there is a history, but compares no runs with them", () => {
  const run = (now: number) =>
    progressOf(facts([{ ...step(1, 'running', 300, 0), expected: plannedHistory(300, 600) }], now));
  expect(run(240).expected).toEqual({ p50_seconds: 300, p90_seconds: 600, samples: 0 });
  expect([run(240).eta_seconds, run(400).eta_seconds, run(700).eta_seconds]).toEqual([60, 200, null]);
  expect([run(700).slower_than, run(1800).stalled, run(1801).stalled]).toEqual([null, false, true]);
});

test('estimates the remaining time by the median, then by the 90th percentile, then not at all', () => {
  const steps = [known(1, 'running', 80, 160, 0), known(2, 'pending', 20, 30, null)];
  const eta = (now: number) => progressOf(facts(steps, now)).eta_seconds;
  expect([eta(10), eta(100), eta(160)]).toEqual([90, 80, null]);
  expect(
    progressOf(facts([known(1, 'running', 80, 160, 0), step(2, 'pending', null, null)], 10)).eta_seconds,
  ).toBeNull();
});

test('shows the share of earlier runs that were faster', () => {
  const slower = (now: number) => progressOf(facts([known(1, 'running', 80, 160, 0)], now)).slower_than;
  expect([slower(0), slower(80), slower(160), slower(1e6)]).toEqual([0, 0.5, 0.9, 1]);
});

test('is stalled after no progress for longer than the 90th percentile', () => {
  const steps = [known(1, 'running', 80, 160, 0)];
  const stalled = (now: number, overrides: Partial<ProgressFacts> = {}) =>
    progressOf(facts(steps, now, overrides)).stalled;
  expect([stalled(160), stalled(161)]).toEqual([false, true]);
  expect(stalled(300, { advanced_at: at(200) })).toBe(false);
  expect(stalled(361, { advanced_at: at(200) })).toBe(true);
  // A step is not stalled before the `retry_at` of its last advance.
  expect(stalled(300, { patient_until: at(310) })).toBe(false);
  expect(stalled(310, { patient_until: at(310) })).toBe(true);
  // A new `retry_at` alone is no progress.
  expect(stalled(300, { retry_at: at(310) })).toBe(true);
  expect(progressOf(facts(steps, 300, { retry_at: at(310) })).retry_after_seconds).toBe(10);
  // A pause below the minimum is no stall, however fast the step usually is.
  expect(progressOf(facts([known(1, 'running', 0.1, 0.2, 0)], minStallSeconds)).stalled).toBe(false);
  expect(progressOf(facts([known(1, 'running', 0.1, 0.2, 0)], minStallSeconds + 1)).stalled).toBe(true);
  expect(stalled(1000, { status: 'failed', finished_at: at(500) })).toBe(false);
});

test('is stalled much later with few samples, and is not compared with earlier runs', () => {
  const run = (samples: number, now: number) =>
    progressOf(facts([{ ...step(1, 'running', 1, 0), expected: history(samples, 80, 160) }], now));
  expect([run(1, 161).stalled, run(1, 480).stalled, run(1, 481).stalled]).toEqual([false, false, true]);
  expect([run(minSamples - 1, 161).stalled, run(minSamples, 161).stalled]).toEqual([false, true]);
  expect([run(minSamples - 1, 160).slower_than, run(minSamples, 160).slower_than]).toEqual([null, 0.9]);
});

test('shows when a failed step is retried', () => {
  const waiting = { ...step(1, 'waiting', 10, 0), retry_at: at(30) };
  expect(progressOf(facts([waiting], 10)).retry_after_seconds).toBe(20);
  expect(progressOf(facts([{ ...waiting, status: 'running' }], 10)).retry_after_seconds).toBeUndefined();
});

describe('a step that fails', () => {
  const error = { code: 'engine_away', owner_layer: 'operator', message: 'the engine is away' };
  const failing = { ...known(1, 'running', 80, 160, 0), error, tries: 3 };
  const steps = [failing, known(2, 'pending', 20, 30, null)];

  test('keeps the percentage of the moment at which it first failed, and has no estimate', () => {
    const before = progressOf(facts([known(1, 'running', 80, 160, 0), known(2, 'pending', 20, 30, null)], 40));
    for (const status of ['running', 'waiting'] as const)
      for (const now of [40, 41, 400, 1e6])
        expect(
          progressOf(facts([{ ...failing, status }, ...steps.slice(1)], now, { failing_since: at(40) })),
        ).toMatchObject({
          percent: before.percent,
          eta_seconds: null,
          failing: { ...error, tries: 3, seconds: now - 40 },
        });
    expect(before.percent).toBe(28);
    expect(before).not.toHaveProperty('failing');
  });

  test('continues after it recovered, without the time in which it failed', () => {
    const recovered = [{ ...failing, error: null }, known(2, 'pending', 20, 30, null)];
    const after = progressOf(facts(recovered, 450, { failed_seconds: 400 }));
    expect(after).toMatchObject({ percent: 35, eta_seconds: 50, step_elapsed_seconds: 450 });
    expect(after).not.toHaveProperty('failing');
    const again = progressOf(facts(steps, 9000, { failed_seconds: 400, failing_since: at(450) }));
    expect(again.percent).toBe(after.percent);
  });

  test('keeps the published percentage if an older version recorded no time of the failure', () => {
    expect(progressOf(facts(steps, 500, { percent: 12 }))).toMatchObject({ percent: 12, failing: { seconds: null } });
  });

  test('no longer fails once its operation has ended', () => {
    const ended = { status: 'failed' as const, finished_at: at(60), failing_since: at(40) };
    const progress = progressOf(facts([{ ...failing, status: 'failed' }, ...steps.slice(1)], 900, ended));
    expect(progress.percent).toBe(28);
    expect(progress).not.toHaveProperty('failing');
  });
});

test('never shows less than the published percentage', () => {
  const steps = [step(1, 'running', 10, 100)];
  expect(progressOf(facts(steps, 100, { percent: 42.5 })).percent).toBe(42.5);
});

const firstBoot = { expected: null, step_elapsed_seconds: 12 };

test('says after 5 s that a first boot has no estimate', () => {
  for (const step of ['launch', 'launch:pull_image', 'register', 'start', 'start:ready'])
    expect(explainNoEstimate('running', step, firstBoot), step).toBe('no earlier boot to compare with, so no estimate');
  expect(explainNoEstimate('running', 'register', { ...firstBoot, step_elapsed_seconds: 2 })).toBe('');
});

test('says nothing with a history, after the end, or in other phases', () => {
  const expected = { p50_seconds: 10, p90_seconds: 20, samples: 4 };
  expect(explainNoEstimate('running', 'register', { ...firstBoot, expected })).toBe('');
  expect(explainNoEstimate('failed', 'register', firstBoot)).toBe('');
  expect(explainNoEstimate('running', 'clean', firstBoot), 'no boot').toBe('');
});
