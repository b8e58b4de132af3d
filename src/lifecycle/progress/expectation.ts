/** The expected duration of a step, from its earlier runs. */

/** Durations of earlier runs at evenly spaced quantiles, fastest first. */
export interface StepHistory {
  samples: number;
  quantiles: readonly number[];
}

export interface Expected {
  p50_seconds: number;
  p90_seconds: number;
  samples: number;
}

/** Steps of 5 %: enough for "slower than 92 %" without storing every run. */
export const quantileShares: readonly number[] = Array.from({ length: 21 }, (_, i) => i / 20);

/** A shorter pause is not a stall, however fast the step usually is. */
export const minStallSeconds = 2;

/** With fewer runs the 90th percentile is not reliable. */
export const minSamples = 10;
/** With too few samples a stall takes this many times the 90th percentile. */
const whileFewFactor = 3;

/** How long a step may make no progress before it counts as stalled. */
export const stallAfterSeconds = ({ p90_seconds, samples }: Expected): number =>
  Math.max(minStallSeconds, samples < minSamples ? whileFewFactor * p90_seconds : p90_seconds);

function at(quantiles: readonly number[], share: number): number {
  const place = share * (quantiles.length - 1);
  const below = quantiles[Math.floor(place)] ?? 0;
  const above = quantiles[Math.ceil(place)] ?? below;
  return below + (above - below) * (place - Math.floor(place));
}

/**
 * From the plan's estimates, for a step without recorded runs. With no samples nothing is compared
 * with it.
 */
export const plannedHistory = (usual_seconds: number, slow_seconds: number): StepHistory => ({
  samples: 0,
  quantiles: quantileShares.map(
    (share) => usual_seconds + ((slow_seconds - usual_seconds) * Math.max(0, share - 0.5)) / (0.9 - 0.5),
  ),
});

export const expectedOf = (history: StepHistory | null): Expected | null =>
  history && history.quantiles.length > 0
    ? { p50_seconds: at(history.quantiles, 0.5), p90_seconds: at(history.quantiles, 0.9), samples: history.samples }
    : null;

/** The share of earlier runs that had ended by then; null with too few samples. */
export function slowerThan({ quantiles, samples }: StepHistory, elapsed_seconds: number): number | null {
  if (samples < minSamples) return null;
  const last = quantiles.length - 1;
  const next = quantiles.findIndex((seconds) => seconds >= elapsed_seconds);
  if (next === -1) return 1;
  if (next === 0) return 0;
  const before = quantiles[next - 1] ?? 0;
  const within = (elapsed_seconds - before) / ((quantiles[next] ?? before) - before);
  return (next - 1 + within) / last;
}

/** The remaining time by the median, then by the 90th percentile; null beyond that. */
export function remainingOf({ p50_seconds, p90_seconds }: Expected, elapsed_seconds: number): number | null {
  if (elapsed_seconds < p50_seconds) return p50_seconds - elapsed_seconds;
  return elapsed_seconds < p90_seconds ? p90_seconds - elapsed_seconds : null;
}
