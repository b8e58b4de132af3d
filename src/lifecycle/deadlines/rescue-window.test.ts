import { expect, test } from 'vitest';
import { allocationStatuses } from '../model/states.ts';
import { describeAllocationStatus, hasEnded, isRescueOver } from './rescue-window.ts';

const deadline_at = '2026-01-01T12:00:00.000Z';
const endsMs = Date.parse(deadline_at);

test('a failed allocation can be rescued until its window ends', () => {
  const failed = { status: 'failed', deadline_at, verdict: { certain: false } } as const;
  expect(isRescueOver(failed, endsMs - 1)).toBe(false);
  expect(describeAllocationStatus(failed, endsMs - 1)).toBe(allocationStatuses.failed.means);
  expect(isRescueOver(failed, endsMs)).toBe(true);
  expect(describeAllocationStatus(failed, endsMs)).toMatch(/window is over; retry or release it/);
});

test('an allocation whose machine is known to have ended cannot be rescued', () => {
  const ended = { status: 'failed', deadline_at, verdict: { certain: true } } as const;
  expect(describeAllocationStatus(ended, endsMs - 1)).toMatch(/waiting does not help; retry or release it/);
  expect(describeAllocationStatus(ended, endsMs)).toMatch(/window is over/);
  expect(hasEnded({ status: 'active', verdict: { certain: true } })).toBe(false);
  expect(hasEnded({ status: 'failed', verdict: null })).toBe(false);
});

test('only a failed allocation has a rescue window, and it is over without a deadline', () => {
  expect(isRescueOver({ status: 'provisioning', deadline_at }, endsMs + 1)).toBe(false);
  expect(isRescueOver({ status: 'failed', deadline_at: null }, endsMs - 1)).toBe(true);
});
