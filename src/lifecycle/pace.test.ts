import { expect, test } from 'vitest';
import { paceOf, readDuration, type SeenPace, seeBeat, slowestIntervalSeconds } from './pace.ts';

const seenAt = (...seconds: number[]) =>
  seconds.reduce<SeenPace | undefined>((seen, at) => seeBeat(seen, at * 1000), undefined)?.interval_seconds;

test('how often a client beats is seen from its third beat on', () => {
  expect(seenAt(0)).toBeNull();
  expect(seenAt(0, 120)).toBeNull();
  expect(seenAt(0, 120, 240)).toBe(120);
});

test('one long pause is an outage, and two are how it beats', () => {
  expect(seenAt(0, 2, 4, 604)).toBe(2);
  expect(seenAt(0, 2, 4, 604, 606)).toBe(2);
  expect(seenAt(0, 2, 4, 604, 1204)).toBe(600);
});

test('a clock that went back is no pause', () => {
  expect(seenAt(100, 50, 60)).toBe(0);
});

const usual = { announced_seconds: null, seen_seconds: null, usual_seconds: 10, stale_after_seconds: 30 };

test('the slower of what was announced and seen counts, and the usual only where there is neither', () => {
  expect(paceOf(usual)).toEqual({ interval_seconds: 10, stale_seconds: 30 });
  expect(paceOf({ ...usual, announced_seconds: 2 })).toEqual({ interval_seconds: 2, stale_seconds: 30 });
  expect(paceOf({ ...usual, announced_seconds: 2, seen_seconds: 120 })).toEqual({
    interval_seconds: 120,
    stale_seconds: 360,
  });
  expect(paceOf({ ...usual, announced_seconds: 30, seen_seconds: 0.1 })).toEqual({
    interval_seconds: 30,
    stale_seconds: 90,
  });
});

test('nobody is missed before its lease is over, or silent for days by announcing it', () => {
  expect(paceOf({ ...usual, announced_seconds: 2, lease_seconds: 300 }).stale_seconds).toBe(300);
  expect(paceOf({ ...usual, seen_seconds: 120, lease_seconds: 300 }).stale_seconds).toBe(360);
  expect(paceOf({ ...usual, announced_seconds: 1e9 }).interval_seconds).toBe(slowestIntervalSeconds);
});

test.each([
  ['2s', 2],
  ['500ms', 0.5],
  ['1m30s', 90],
  ['1.5m', 90],
  ['1h', 3600],
  ['900h', slowestIntervalSeconds],
  ['0s', null],
  ['2', null],
  ['soon', null],
  ['-2s', null],
  ['', null],
  [null, null],
  [undefined, null],
  ['1s'.repeat(40), null],
])('a duration written %s', (text, seconds) => {
  expect(readDuration(text)).toBe(seconds);
});
