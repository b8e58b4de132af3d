import fc from 'fast-check';
import { expect, test } from 'vitest';
import { effectiveStaleSeconds, heartbeatPolicy } from './heartbeat-policy.ts';

const seconds = fc.double({ min: 0.1, max: 1e6, noNaN: true });

test('the effective and the default stale time are at least three intervals', () => {
  fc.assert(
    fc.property(seconds, seconds, (stale, interval) => {
      expect(effectiveStaleSeconds(stale, interval)).toBe(Math.max(stale, 3 * interval));
      expect(heartbeatPolicy({ interval_seconds: interval }).stale_after_seconds).toBeGreaterThanOrEqual(3 * interval);
    }),
  );
  expect(heartbeatPolicy()).toEqual({ interval_seconds: 10, stale_after_seconds: 30 });
  expect(heartbeatPolicy({ interval_seconds: 5 }).stale_after_seconds).toBe(30);
});

test('uses a configured stale time unchanged', () => {
  expect(heartbeatPolicy({ interval_seconds: 1, stale_after_seconds: 2 }).stale_after_seconds).toBe(2);
});
