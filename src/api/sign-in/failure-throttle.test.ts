import { expect, it } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { createFailureThrottle } from './failure-throttle.ts';

it('allows some failures, then doubles the wait up to five minutes', async () => {
  const clock = virtualClock();
  const throttle = createFailureThrottle(clock, 3);
  for (let tries = 0; tries < 3; tries++) expect(throttle.countFailure('a')).toBeUndefined();
  const waits: number[] = [];
  for (let tries = 0; tries < 11; tries++) {
    const wait = throttle.countFailure('a') ?? 0;
    waits.push(wait);
    await clock.advance(wait * 1000);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  expect(throttle.countFailure('b')).toBeUndefined();
});

it('does not lengthen the wait for failures during it, and forgets an address after 15 minutes', async () => {
  const clock = virtualClock();
  const throttle = createFailureThrottle(clock, 1);
  throttle.countFailure('a');
  expect(throttle.countFailure('a')).toBe(1);
  for (let tries = 0; tries < 50; tries++) throttle.countFailure('a');
  await clock.advance(400);
  expect(throttle.countFailure('a')).toBeCloseTo(0.6);
  await clock.advance(15 * 60_000);
  expect(throttle.countFailure('a')).toBeUndefined();
});

it('remembers at most ten thousand addresses', () => {
  const throttle = createFailureThrottle(virtualClock(), 1);
  throttle.countFailure('first');
  expect(throttle.countFailure('first')).toBeDefined();
  for (let address = 0; address < 20_000; address++) throttle.countFailure(`address ${address}`);
  expect(throttle.size()).toBe(10_000);
  expect(throttle.countFailure('first')).toBeUndefined();
});
