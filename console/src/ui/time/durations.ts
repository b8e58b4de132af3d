/** Formats durations. Pure. */

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const padTwo = (value: number) => String(value).padStart(2, '0');

/** Elapsed time: `38s`, `4m 12s`, `1h 04m`, `3d 4h`. */
export function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < minute) return `${whole}s`;
  if (whole < hour) return `${Math.floor(whole / minute)}m ${padTwo(whole % minute)}s`;
  if (whole < day) return `${Math.floor(whole / hour)}h ${padTwo(Math.floor((whole % hour) / minute))}m`;
  return `${Math.floor(whole / day)}d ${Math.floor((whole % day) / hour)}h`;
}

/** Keeps a fraction below one minute: `0.80s`, `12.4s`. From there on like `formatElapsed`. */
export const formatPrecise = (seconds: number): string =>
  seconds < minute ? `${seconds.toFixed(seconds < 10 ? 2 : 1)}s` : formatElapsed(seconds);

const units = [
  { seconds: day, word: 'd' },
  { seconds: hour, word: 'h' },
  { seconds: minute, word: 'min' },
  { seconds: 1, word: 's' },
] as const;

const unitOf = (seconds: number) => units.find((unit) => seconds >= 1.5 * unit.seconds) ?? units[3];

const inUnit = (seconds: number, unit: { seconds: number }) => {
  const value = seconds / unit.seconds;
  return value < 1.5 && value !== Math.round(value) ? Number(value.toFixed(1)) : Math.max(1, Math.round(value));
};

/** Rounded: `40 s`, `5 min`, `2 h`. */
export function formatRoughly(seconds: number): string {
  const unit = unitOf(seconds);
  return `${inUnit(seconds, unit)} ${unit.word}`;
}

/**
 * A range in the unit of the larger value: `5–10 min`, `20–45 s`. One number if both round to one
 * value.
 */
export function formatRange(low: number, high: number): string {
  const unit = unitOf(high);
  const [from, to] = [inUnit(low, unit), inUnit(high, unit)];
  return from === to ? `${to} ${unit.word}` : `${from}–${to} ${unit.word}`;
}
