/** Moments as a person reads them. Pure: the present is a parameter. */
import { moment } from '../../../../src/base/clock.ts';
import { elapsed } from './durations.ts';

/** `just now`, `38s ago`, `in 4m 12s`. */
export function relative(atMs: number, nowMs: number): string {
  const seconds = (nowMs - atMs) / 1000;
  if (Math.abs(seconds) < 2) return 'just now';
  return seconds > 0 ? `${coarse(seconds)} ago` : `in ${elapsed(-seconds)}`;
}

/** Of what is to come: `in 4m 12s`, and `now` once it is due. */
export const due = (atMs: number, nowMs: number): string => (atMs - nowMs < 1000 ? 'now' : relative(atMs, nowMs));

/** How old: `38s`, `4m`, `1h 04m`. */
export const age = (atMs: number, nowMs: number): string => coarse(Math.max(0, (nowMs - atMs) / 1000));

/** The past needs no seconds once it is minutes away, and a table that counts seconds everywhere is restless. */
function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return elapsed(seconds);
  return `${Math.floor(seconds / 86_400)}d`;
}

/** With its zone, and from 00 to 23: nobody should have to guess which half of the day, or whose. */
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23' });

/** For the few moments that are shown of the many that are kept as numbers. */
export const isoOf = (ms: number): string => moment(ms).toISOString();

/** The whole truth, for the hover: local time with its zone, and the UTC that logs carry. */
export const absolute = (iso: string): string => `${local.format(Date.parse(iso))} · ${iso}`;

const iso = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g;

/** The server writes moments in its sentences as logs do; a person reads them in their own time. */
export const withLocalTimes = (sentence: string): string =>
  sentence.replaceAll(iso, (at) => local.format(Date.parse(at)));

const clockFace = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
  fractionalSecondDigits: 3,
});

/** Time of day with milliseconds, for rows that stand under one another. */
export const timeOfDay = (iso: string): string => clockFace.format(Date.parse(iso));
