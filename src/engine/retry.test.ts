import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OperationCancelled, StepError, StepFailed } from './engine.ts';
import { classify, retryDelaySeconds } from './retry.ts';

const policies = fc
  .record({
    tries: fc.integer({ min: 1, max: 50 }),
    base_seconds: fc.double({ min: 0.001, max: 60, noNaN: true }),
    factor: fc.double({ min: 1, max: 1000, noNaN: true }),
  })
  .map(({ tries, base_seconds, factor }) => ({ tries, base_seconds, max_seconds: base_seconds * factor }));

const dice = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('a delay is the doubled base, capped at the maximum, and at most halved by jitter', () => {
  fc.assert(
    fc.property(policies, fc.integer({ min: 1, max: 50 }), dice, (policy, tryNumber, die) => {
      const delay = retryDelaySeconds(policy, tryNumber, () => die);
      const full = Math.min(policy.base_seconds * 2 ** (tryNumber - 1), policy.max_seconds);
      expect(delay).toBeGreaterThanOrEqual(full / 2);
      expect(delay).toBeLessThanOrEqual(full);
    }),
  );
});

test('classifies errors as retryable, final or cancelled', () => {
  const problem = { code: 'quota', owner_layer: 'cloud', message: 'no quota' };
  expect(classify(new StepError({ ...problem, retryable: true }))).toEqual({ kind: 'retryable', problem });
  expect(classify(new StepError({ ...problem, retryable: false }))).toEqual({ kind: 'final', problem });
  expect(classify(new StepFailed({ ...problem, step: 'create', tries: 2 }))).toEqual({ kind: 'final', problem });
  expect(classify(new OperationCancelled())).toEqual({ kind: 'cancelled' });
  expect(classify('just words')).toEqual({
    kind: 'retryable',
    problem: { code: 'internal_error', owner_layer: 'control_plane', message: 'just words' },
  });
});
