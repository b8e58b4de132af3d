import { expect, test } from 'vitest';
import { noEstimate } from './no-estimate.ts';

const first = { phase: 'register', expected: null, step_elapsed_seconds: 12 };

test('a first boot says that there is nothing to compare it with, once somebody may wonder', () => {
  expect(noEstimate('running', first)).toBe('no earlier boot to compare with, so no estimate');
  expect(noEstimate('running', { ...first, step_elapsed_seconds: 2 })).toBe('');
});

test('one with a history, or that is over, says nothing of the kind', () => {
  const expected = { p50_seconds: 10, p90_seconds: 20, samples: 4 };
  expect(noEstimate('running', { ...first, expected })).toBe('');
  expect(noEstimate('failed', first)).toBe('');
  expect(noEstimate('running', { ...first, phase: 'clean' }), 'no boot').toBe('');
});
