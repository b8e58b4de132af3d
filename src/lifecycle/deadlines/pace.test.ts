import fc from 'fast-check';
import { expect, test } from 'vitest';
import { effectiveStaleSeconds } from './heartbeat-policy.ts';
import {
  assignedIntervalSeconds,
  type BeatTiming,
  maxAssignableSeconds,
  maxIntervalSeconds,
  paceOf,
  readDuration,
  recordBeat,
} from './pace.ts';

const measuredInterval = (...seconds: number[]) =>
  seconds.reduce<BeatTiming | undefined>((timing, at) => recordBeat(timing, at * 1000), undefined)?.interval_seconds;

test('measures the interval from the third heartbeat on', () => {
  expect(measuredInterval(0)).toBeNull();
  expect(measuredInterval(0, 120)).toBeNull();
  expect(measuredInterval(0, 120, 240)).toBe(120);
});

test('treats one long pause as an outage, and two as the interval', () => {
  expect(measuredInterval(0, 2, 4, 604)).toBe(2);
  expect(measuredInterval(0, 2, 4, 604, 606)).toBe(2);
  expect(measuredInterval(0, 2, 4, 604, 1204)).toBe(600);
});

test('counts a pause of zero if the clock goes back', () => {
  expect(measuredInterval(100, 50, 60)).toBe(0);
});

const poolDefaults = { announced_seconds: null, measured_seconds: null, usual_seconds: 10, stale_after_seconds: 30 };

test("uses the longer of the announced and measured interval, else the pool's", () => {
  expect(paceOf(poolDefaults)).toEqual({ interval_seconds: 10, stale_seconds: 30 });
  expect(paceOf({ ...poolDefaults, announced_seconds: 2 })).toEqual({ interval_seconds: 2, stale_seconds: 30 });
  expect(paceOf({ ...poolDefaults, measured_seconds: 2 })).toEqual({ interval_seconds: 2, stale_seconds: 30 });
  expect(paceOf({ ...poolDefaults, announced_seconds: 2, measured_seconds: 120 })).toEqual({
    interval_seconds: 120,
    stale_seconds: 360,
  });
  expect(paceOf({ ...poolDefaults, announced_seconds: 30, measured_seconds: 0.1 })).toEqual({
    interval_seconds: 30,
    stale_seconds: 90,
  });
});

test('extends the stale time to a lease, and bounds an announced interval', () => {
  expect(paceOf({ ...poolDefaults, announced_seconds: 2, lease_seconds: 300 }).stale_seconds).toBe(300);
  expect(paceOf({ ...poolDefaults, measured_seconds: 120, lease_seconds: 300 }).stale_seconds).toBe(360);
  expect(paceOf({ ...poolDefaults, announced_seconds: 1e9 }).interval_seconds).toBe(maxIntervalSeconds);
});

test.each([
  ['2s', 2],
  ['500ms', 0.5],
  ['1m30s', 90],
  ['1.5m', 90],
  ['1.25m', 75],
  ['1s'.repeat(32), 32],
  ['2s!', null],
  ['1h', 3600],
  ['900h', maxIntervalSeconds],
  ['0s', null],
  ['2', null],
  ['soon', null],
  ['-2s', null],
  ['', null],
  [null, null],
  [undefined, null],
  ['1s'.repeat(40), null],
])('reads the duration %s as %s seconds', (text, seconds) => {
  expect(readDuration(text)).toBe(seconds);
});

const anyLoad = fc.record({
  nodes: fc.integer({ min: 0, max: 5_000_000 }),
  replicas: fc.integer({ min: 0, max: 20 }),
  beat_rate: fc.double({ min: 1, max: 100_000, noNaN: true }),
});
const share = fc.double({ min: 0, max: 1, noNaN: true });

test('keeps the heartbeat rate of a replica within its limit for any fleet', () => {
  fc.assert(
    fc.property(anyLoad, share, (load, spread) => {
      const interval = assignedIntervalSeconds(10, load, spread);
      const replicas = Math.max(1, load.replicas);
      expect(interval).toBeGreaterThanOrEqual(9);
      if (interval < maxIntervalSeconds)
        expect(load.nodes / interval / replicas).toBeLessThanOrEqual(load.beat_rate * 1.12);
      expect(interval).toBeLessThanOrEqual(maxIntervalSeconds);
    }),
  );
});

test("keeps the pool's interval in a small fleet, and spreads intervals in a large one", () => {
  const small = { nodes: 200, replicas: 1, beat_rate: 5_000 };
  expect([0, 0.5, 1].map((spread) => assignedIntervalSeconds(10, small, spread))).toEqual([9, 10, 11]);
  const large = { nodes: 1_000_000, replicas: 2, beat_rate: 5_000 };
  expect([0, 0.5, 1].map((spread) => assignedIntervalSeconds(10, large, spread))).toEqual([90, 100, 110]);
});

test('stretches intervals under overload', () => {
  const load = { nodes: 200, replicas: 1, beat_rate: 5_000 };
  expect([1, 2, 4].map((stretch) => assignedIntervalSeconds(10, load, 0.5, stretch))).toEqual([10, 20, 40]);
});

test('grows an interval by at most half, so that a lost heartbeat causes no silence', () => {
  expect(maxAssignableSeconds(30)).toBe(15);
  fc.assert(
    fc.property(fc.integer({ min: 10, max: 1_200_000 }), (ms) => {
      const interval = ms / 1000;
      const allowed = effectiveStaleSeconds(0, interval);
      expect(maxAssignableSeconds(allowed)).toBeGreaterThan(interval);
      expect(interval + maxAssignableSeconds(allowed)).toBeLessThan(0.9 * allowed);
    }),
  );
});
