/** Checks how durations, ages and moments are formatted and parsed. */
import { expect, test } from 'vitest';
import {
  formatAge,
  formatAgeSince,
  formatDuration,
  formatElapsed,
  formatRelative,
  formatUsual,
  formatUsualRange,
  momentInFull,
  parseDuration,
} from './duration.ts';

test.each([
  [-3, '0s'],
  [4.9, '4s'],
  [72, '1m 12s'],
  [7500, '2h 05m'],
  [3 * 86_400 + 4 * 3600, '3d 4h'],
])('formats a counter of %d s as %s', (seconds, text) => expect(formatElapsed(seconds)).toBe(text));

test.each([
  [3.24, '3.2s'],
  [0, '0.0s'],
  [12.7, '12s'],
])('formats a duration of %d s as %s', (seconds, text) => expect(formatDuration(seconds)).toBe(text));

test.each([
  [0.4, 'under 1 s'],
  [2.4, '2 s'],
  [90, '90 s'],
  [423, '7 min'],
  [7200, '2 h'],
])('formats a usual duration of %d s as %s', (seconds, text) => expect(formatUsual(seconds)).toBe(text));

test.each([
  [-10, '0s'],
  [59, '59s'],
  [60, '1m'],
  [86_400, '24h'],
  [3 * 86_400, '3d'],
])('formats an age of %d s as %s', (seconds, text) => expect(formatAge(seconds)).toBe(text));

test.each([
  ['2026-01-02T11:59:59.5Z', 'in 1d'],
  ['2026-01-02T11:59:00Z', 'in 23h 59m'],
  ['2026-01-01T13:59:00Z', 'in 1h 59m'],
  ['2026-01-01T12:01:05Z', 'in 1m 05s'],
  ['2026-01-01T12:00:20Z', 'in 20s'],
])('formats the time left until %s in two units: %s', (at, text) =>
  expect(formatRelative(at, Date.parse('2026-01-01T12:00:00Z'))).toBe(text),
);

test('formats ages and moments relative to a fixed time', () => {
  const nowMs = Date.parse('2026-01-01T12:00:00Z');
  expect(formatAgeSince(null, nowMs)).toBe('');
  expect(formatAgeSince('2026-01-01T11:58:00Z', nowMs)).toBe('2m');
  expect(formatRelative('2026-01-01T12:06:00Z', nowMs)).toBe('in 6m');
  expect(formatRelative('2026-01-01T11:59:30.5Z', nowMs)).toBe('29s ago');
  expect(momentInFull('2026-01-01T11:59:30.123Z')).toBe('2026-01-01 11:59:30Z');
});

test.each([
  ['90', 90],
  ['1.5', 1.5],
  ['90s', 90],
  ['1h30m', 5400],
  ['7d', 604_800],
  ['', null],
  ['-1', null],
  ['5 minutes', null],
  ['1e3', null],
])('reads the duration %j as %j', (text, seconds) => expect(parseDuration(text)).toBe(seconds));

test.each([
  [300, 600, '5–10 min'],
  [2.2, 5, '2–5 s'],
  [2.2, 2.4, '2 s'],
  [0.3, 0.9, 'under 1 s'],
  [0.3, 2, 'under 1 s to 2 s'],
  [45, 600, '45 s to 10 min'],
])('formats the range from %d s to %d s as %s', (low, high, text) => expect(formatUsualRange(low, high)).toBe(text));
