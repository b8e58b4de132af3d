/** Formats moments. Pure: callers pass the current time. */
import { moment } from '../../../../src/base/clock.ts';
import { formatElapsed } from './durations.ts';

/** `just now`, `38s ago`, `in 4m 12s`. */
export function formatRelative(atMs: number, nowMs: number): string {
  const seconds = (nowMs - atMs) / 1000;
  if (Math.abs(seconds) < 2) return 'just now';
  return seconds > 0 ? `${formatCoarse(seconds)} ago` : `in ${formatElapsed(-seconds)}`;
}

/** For a future moment: `in 4m 12s`, and `now` when it is due. */
export function formatDue(atMs: number, nowMs: number): string {
  const seconds = (atMs - nowMs) / 1000;
  return seconds < 1 ? 'now' : `in ${formatElapsed(seconds)}`;
}

/** Age: `38s`, `4m`, `1h 04m`. */
export const formatAge = (atMs: number, nowMs: number): string => formatCoarse(Math.max(0, (nowMs - atMs) / 1000));

/** Leaves out seconds beyond a minute, so that tables do not change all the time. */
function formatCoarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return formatElapsed(seconds);
  return `${Math.floor(seconds / 86_400)}d`;
}

/** With the time zone and a 24-hour clock. */
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23' });

/** Formats a moment that is stored as a number. */
export const isoOf = (ms: number): string => moment(ms).toISOString();

/** For the tooltip: local time with its zone, and UTC as in logs. */
export const formatAbsolute = (iso: string): string => `${local.format(Date.parse(iso))} · ${iso}`;

const iso = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g;

/** Replaces the ISO timestamps in a sentence of the server with local times. */
export const withLocalTimes = (sentence: string): string =>
  sentence.replaceAll(iso, (at) => local.format(Date.parse(at)));

const clockFace = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
  fractionalSecondDigits: 3,
});

/** Time of day with milliseconds, for rows in a column. */
export const timeOfDay = (iso: string): string => clockFace.format(Date.parse(iso));
