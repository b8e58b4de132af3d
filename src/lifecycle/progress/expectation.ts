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

/** Every 5 %, which is enough to say "slower than 92 %" without storing every run. */
export const quantileShares: readonly number[] = Array.from({ length: 21 }, (_, i) => i / 20);

/** A shorter pause is not a stall, however fast the step usually is. */
export const minStallSeconds = 2;

/** With fewer runs the 90th percentile is not reliable. */
export const minSamples = 10;
/** With fewer samples, a step counts as stalled after this many times the 90th percentile. */
const fewSamplesFactor = 3;

/** How long a step may make no progress before it counts as stalled. */
export const stallAfterSeconds = ({ p90_seconds, samples }: Expected): number =>
  Math.max(minStallSeconds, samples < minSamples ? fewSamplesFactor * p90_seconds : p90_seconds);

function interpolate(quantiles: readonly number[], share: number): number {
  const position = share * (quantiles.length - 1);
  const below = quantiles[Math.floor(position)] ?? 0;
  const above = quantiles[Math.ceil(position)] ?? below;
  return below + (above - below) * (position - Math.floor(position));
}

/**
 * A history made from the plan's estimates, for a step without recorded runs. It has no samples, so
 * no run is compared with it.
 */
export const plannedHistory = (usual_seconds: number, slow_seconds: number): StepHistory => ({
  samples: 0,
  quantiles: quantileShares.map(
    (share) => usual_seconds + ((slow_seconds - usual_seconds) * Math.max(0, share - 0.5)) / (0.9 - 0.5),
  ),
});

export const expectedOf = (history: StepHistory | null): Expected | null =>
  history && history.quantiles.length > 0
    ? {
        p50_seconds: interpolate(history.quantiles, 0.5),
        p90_seconds: interpolate(history.quantiles, 0.9),
        samples: history.samples,
      }
    : null;

/** The share of earlier runs that took less than `elapsed_seconds`; null with too few samples. */
export function computeSlowerThan({ quantiles, samples }: StepHistory, elapsed_seconds: number): number | null {
  if (samples < minSamples) return null;
  const last = quantiles.length - 1;
  const next = quantiles.findIndex((seconds) => seconds >= elapsed_seconds);
  if (next === -1) return 1;
  if (next === 0) return 0;
  const previous = quantiles[next - 1] ?? 0;
  const fraction = (elapsed_seconds - previous) / ((quantiles[next] ?? previous) - previous);
  return (next - 1 + fraction) / last;
}

/** The time until the median, or after it until the 90th percentile; null beyond that. */
export function remainingOf({ p50_seconds, p90_seconds }: Expected, elapsed_seconds: number): number | null {
  if (elapsed_seconds < p50_seconds) return p50_seconds - elapsed_seconds;
  return elapsed_seconds < p90_seconds ? p90_seconds - elapsed_seconds : null;
}
