/** What earlier runs of a step let one expect of this one. Pure. */

/** How long earlier runs took: their quantiles at even distances, the quickest first, the slowest last. */
export interface StepHistory {
  samples: number;
  quantiles: readonly number[];
}

export interface Expected {
  p50_seconds: number;
  p90_seconds: number;
  samples: number;
}

/** In steps of five in a hundred; enough to say "slower than 92 %" without keeping every run. */
export const quantileShares: readonly number[] = Array.from({ length: 21 }, (_, i) => i / 20);

/** So short a rest worries nobody, however quick a step usually is. */
export const minStallSeconds = 2;

/** From so many runs on, their slowest tenth is more than a single run that happened to be quick. */
export const minSamples = 10;
/** With fewer it takes so many times the slowest tenth to worry anybody. */
const whileFewFactor = 3;

/** How long nothing may advance before somebody should know. */
export const stallAfterSeconds = ({ p90_seconds, samples }: Expected): number =>
  Math.max(minStallSeconds, samples < minSamples ? whileFewFactor * p90_seconds : p90_seconds);

function at(quantiles: readonly number[], share: number): number {
  const place = share * (quantiles.length - 1);
  const below = quantiles[Math.floor(place)] ?? 0;
  const above = quantiles[Math.ceil(place)] ?? below;
  return below + (above - below) * (place - Math.floor(place));
}

/** What is known of a step that nobody here has seen yet: no samples, so nobody is compared with it. */
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

/** The share of earlier runs that were over by then; nothing, where too few are known to speak of a share. */
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

/** What is left of a step: by the median, then by the slowest tenth; beyond that nobody knows. */
export function remainingOf({ p50_seconds, p90_seconds }: Expected, elapsed_seconds: number): number | null {
  if (elapsed_seconds < p50_seconds) return p50_seconds - elapsed_seconds;
  return elapsed_seconds < p90_seconds ? p90_seconds - elapsed_seconds : null;
}
