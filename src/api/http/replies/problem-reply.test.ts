import { expect, test } from 'vitest';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { countsAsRefused } from './problem-reply.ts';

const retry_after_seconds = 1;

test('counts a 429, and other refusals unless the caller only came too early or the server is at fault', () => {
  expect(countsAsRefused(new ApiProblem('enrollment_pending', { retry_after_seconds }))).toBe(false);
  expect(countsAsRefused(new ApiProblem('idempotency_in_progress', { retry_after_seconds }))).toBe(false);
  expect(countsAsRefused(new ApiProblem('rate_limited', { retry_after_seconds }))).toBe(true);
  expect(countsAsRefused(new ApiProblem('too_many_failures', { retry_after_seconds }))).toBe(true);
  expect(countsAsRefused(new ApiProblem('credential_unknown'))).toBe(true);
  expect(countsAsRefused(new ApiProblem('internal_error'))).toBe(false);
  expect(countsAsRefused(new Error('a defect'))).toBe(false);
});
