/**
 * A logarithmic scale of durations for charts, since boots take from half a second to half an hour.
 */

export interface DurationScale {
  from: number;
  to: number;
}

const minSeconds = 0.1;

/**
 * Covers the given durations with a margin on both sides, but never starts below 0.1 s. Spans at
 * least a factor of ten.
 */
export function scaleOver(seconds: readonly number[]): DurationScale {
  const [smallest, largest] = seconds.reduce(
    ([low, high], each) => [Math.min(low, each), Math.max(high, each)],
    [Number.POSITIVE_INFINITY, 0],
  );
  const from = Math.max(minSeconds, Math.min(smallest, largest) / 1.6);
  return { from, to: Math.max(largest * 1.5, from * 10) };
}

/** Returns a place from 0 at the left end to 1 at the right. */
export const placeOf = (seconds: number, { from, to }: DurationScale): number =>
  Math.min(1, Math.max(0, Math.log(Math.max(seconds, from) / from) / Math.log(to / from)));

export const secondsAt = (place: number, { from, to }: DurationScale): number =>
  from * (to / from) ** Math.min(1, Math.max(0, place));

const marks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 86_400];

/** Returns the round durations within the scale, for tick marks. */
export const marksOn = (scale: DurationScale): number[] =>
  marks.filter((seconds) => seconds >= scale.from && seconds <= scale.to);
