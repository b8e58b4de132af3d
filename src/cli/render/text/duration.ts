/** Formats durations, ages and moments, and parses durations. Durations are in seconds. Pure. */

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const twoDigits = (value: number) => String(value).padStart(2, '0');
const wholeSeconds = (seconds: number) => Math.max(0, Math.floor(seconds));

/** Formats a running counter: `4s`, `1m 12s`, `2h 05m`, `3d 4h`. */
export function formatElapsed(seconds: number): string {
  const s = wholeSeconds(seconds);
  if (s < minute) return `${s}s`;
  if (s < hour) return `${Math.floor(s / minute)}m ${twoDigits(s % minute)}s`;
  if (s < day) return `${Math.floor(s / hour)}h ${twoDigits(Math.floor((s % hour) / minute))}m`;
  return `${Math.floor(s / day)}d ${Math.floor((s % day) / hour)}h`;
}

/** Formats the duration of something finished; below 10 s with tenths. */
export const formatDuration = (seconds: number): string =>
  seconds < 10 ? `${Math.max(0, seconds).toFixed(1)}s` : formatElapsed(seconds);

/** Rounds to a fitting unit, for expectations. */
function roundToUnit(seconds: number): { amount: number; unit: 's' | 'min' | 'h' } {
  if (seconds < 100) return { amount: Math.round(seconds), unit: 's' };
  if (seconds < 100 * minute) return { amount: Math.round(seconds / minute), unit: 'min' };
  return { amount: Math.round(seconds / hour), unit: 'h' };
}

/** Formats a usual duration: `90 s`, `7 min`, `2 h`. */
export function formatUsual(seconds: number): string {
  if (seconds < 1) return 'under 1 s';
  const { amount, unit } = roundToUnit(seconds);
  return `${amount} ${unit}`;
}

/** `5–10 min`: the 50th and the 90th percentile. */
export function formatUsualRange(p50_seconds: number, p90_seconds: number): string {
  const [low, high] = [formatUsual(p50_seconds), formatUsual(p90_seconds)];
  if (low === high) return low;
  const from = roundToUnit(p50_seconds);
  return p50_seconds >= 1 && from.unit === roundToUnit(p90_seconds).unit
    ? `${from.amount}–${high}`
    : `${low} to ${high}`;
}

/**
 * Formats an age for a table, in one unit: `42s`, `12m`, `5h`, `3d`. Clock skew never makes it
 * negative.
 */
export function formatAge(seconds: number): string {
  const s = wholeSeconds(seconds);
  if (s < minute) return `${s}s`;
  if (s < hour) return `${Math.floor(s / minute)}m`;
  if (s < 2 * day) return `${Math.floor(s / hour)}h`;
  return `${Math.floor(s / day)}d`;
}

export const secondsSince = (at: string, nowMs: number): number => (nowMs - Date.parse(at)) / 1000;

/** Returns an empty string for null. */
export const formatAgeSince = (at: string | null, nowMs: number): string =>
  at === null ? '' : formatAge(secondsSince(at, nowMs));

/**
 * Formats the time left in two units, because `23h` alone could be almost an hour off. Drops a
 * second unit of zero.
 */
const formatTimeLeft = (seconds: number): string => formatElapsed(Math.ceil(seconds)).replace(/ 0+[smh]$/, '');

/** `in 4m 10s` or `2m ago`; within a second, `now` and `just now`. */
export function formatRelative(at: string, nowMs: number): string {
  const seconds = secondsSince(at, nowMs);
  if (Math.abs(seconds) < 1) return seconds < 0 ? 'now' : 'just now';
  return seconds < 0 ? `in ${formatTimeLeft(-seconds)}` : `${formatAge(seconds)} ago`;
}

/** Formats a moment so that it sorts as text: `2026-01-31 14:03:02Z`. */
export const momentInFull = (at: string): string => {
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(at);
  return match ? `${match[1]} ${match[2]}Z` : at;
};

/** Makes the moments inside a sentence readable. */
export const momentsInFull = (text: string): string =>
  text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, momentInFull);

/** Formats a moment and its distance from now. Null stays null, so that the fact is left out. */
export const formatMoment = (at: string | null, nowMs: number): string | null =>
  at && `${momentInFull(at)}  (${formatRelative(at, nowMs)})`;

const units: Record<string, number> = { s: 1, m: minute, h: hour, d: day };

/** Reads `90`, `90s`, `1.5h`, `1h30m`, `7d`. Null for anything else. */
export function parseDuration(text: string): number | null {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  if (!/^(\d+(\.\d+)?[smhd])+$/.test(text)) return null;
  let seconds = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)([smhd])/g))
    seconds += Number(amount) * (units[unit ?? ''] ?? 0);
  return seconds;
}
