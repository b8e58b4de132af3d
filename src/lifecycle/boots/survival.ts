/**
 * Estimates boot durations by the Kaplan-Meier method, which also uses boots with only a lower
 * bound. Standard errors follow Greenwood's formula. Confidence bands are computed on the
 * log(−log S) scale, which keeps them between 0 and 1.
 */
import type { SampleOutcome } from './boot-samples.ts';

/** `running`: the boot has not ended; `seconds` is its duration so far. */
export interface TimedBoot {
  seconds: number;
  outcome: SampleOutcome | 'running';
}

/** `share`: the share of boots that have not arrived after `seconds`. */
export interface SurvivalStep {
  seconds: number;
  share: number;
}

/** A step with the confidence band of its share. */
export interface BandedStep extends SurvivalStep {
  low: number;
  high: number;
}

/** A step with the numbers behind the estimate. */
export interface EstimatedStep extends BandedStep {
  /** The boots still under observation just before this time, and those that arrived at it. */
  at_risk: number;
  arrivals: number;
  std_error: number;
}

/** Whether a boot arrived, in time or late. For all other boots the duration is a lower bound. */
export const hasArrived = ({ outcome }: Pick<TimedBoot, 'outcome'>): boolean =>
  outcome === 'completed' || outcome === 'late';

/** The two-sided 95 % quantile of the normal distribution. */
export const normalQuantile95 = 1.959963984540054;

/**
 * When all boots have arrived, the formula is undefined, but a slower boot is still possible. The
 * upper bound therefore stays at its last value; otherwise the slowest of six boots would be taken
 * for the 99th percentile.
 */
function computeBand(share: number, sum: number, z: number, previousHigh: number): Pick<EstimatedStep, 'low' | 'high'> {
  if (share <= 0) return { low: 0, high: previousHigh };
  const log = Math.log(share);
  const factor = Math.exp((z * Math.sqrt(sum)) / Math.abs(log));
  return { low: Math.exp(log * factor), high: Math.exp(log / factor) };
}

function sortedSeconds(boots: readonly TimedBoot[]): Float64Array {
  const sorted = new Float64Array(boots.length);
  boots.forEach(({ seconds }, place) => {
    sorted[place] = seconds;
  });
  return sorted.sort();
}

interface Moment {
  seconds: number;
  at_risk: number;
  arrivals: number;
}

/**
 * The distinct arrival times, fastest first. A boot that was observed only until an arrival time
 * still counts as at risk at that time.
 */
function arrivalMoments(boots: readonly TimedBoot[]): Moment[] {
  const arrivalTimes = sortedSeconds(boots.filter(hasArrived));
  const censoredTimes = sortedSeconds(boots.filter((boot) => !hasArrived(boot)));
  const result: Moment[] = [];
  let censored = 0;
  for (let at = 0; at < arrivalTimes.length; ) {
    const seconds = arrivalTimes[at] ?? 0;
    while (censored < censoredTimes.length && (censoredTimes[censored] ?? 0) < seconds) censored++;
    const groupStart = at;
    // The comparison is negated, so that the loop also ends for NaN.
    while (at < arrivalTimes.length && !((arrivalTimes[at] ?? 0) > seconds)) at++;
    result.push({ seconds, at_risk: boots.length - groupStart - censored, arrivals: at - groupStart });
  }
  return result;
}

/** One step per arrival time, fastest first. `z`: the width of the bands in standard errors. */
export function estimateSurvival(boots: readonly TimedBoot[], z = normalQuantile95): EstimatedStep[] {
  let share = 1;
  let greenwood = 0;
  let previousHigh = 1;
  return arrivalMoments(boots).map(({ seconds, at_risk, arrivals }) => {
    share *= 1 - arrivals / at_risk;
    greenwood += arrivals / (at_risk * (at_risk - arrivals));
    const std_error = arrivals === at_risk ? 0 : share * Math.sqrt(greenwood);
    const { low, high } = computeBand(share, greenwood, z, previousHigh);
    previousHigh = high;
    return { seconds, share, at_risk, arrivals, std_error, low, high };
  });
}

/** The curve starts at 1 and ends with the share of boots that did not arrive while observed. */
export function survivalCurve(boots: readonly TimedBoot[]): SurvivalStep[] {
  let share = 1;
  const steps = arrivalMoments(boots).map(({ seconds, at_risk, arrivals }) => {
    share *= 1 - arrivals / at_risk;
    return { seconds, share };
  });
  return [{ seconds: 0, share: 1 }, ...steps];
}

/** The time by which this share of the completing boots has arrived; null if none completed. */
export function quantileOf(curve: readonly SurvivalStep[], quantile: number): number | null {
  const end = curve.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const step = curve.find(({ share }) => (share - end) / (1 - end) <= 1 - quantile + 1e-9);
  return step?.seconds ?? null;
}

/** Each time is null if its curve does not fall far enough within the recorded boots. */
export interface BandedQuantile {
  seconds: number | null;
  low: number | null;
  high: number | null;
}

/**
 * The time by which a share of all boots has arrived, with the times at which the bands cross that
 * share.
 */
export function bandedQuantile(steps: readonly EstimatedStep[], quantile: number): BandedQuantile {
  const remainingShare = 1 - quantile + 1e-12;
  const firstTimeWhere = (isReached: (step: EstimatedStep) => boolean) => steps.find(isReached)?.seconds ?? null;
  return {
    seconds: firstTimeWhere(({ share }) => share <= remainingShare),
    low: firstTimeWhere(({ low }) => low <= remainingShare),
    high: firstTimeWhere(({ high }) => high <= remainingShare),
  };
}

/** As `bandedQuantile`, but among the boots that complete. */
export function bandedCompletion(steps: readonly EstimatedStep[], quantile: number): BandedQuantile {
  const end = steps.at(-1)?.share ?? 1;
  if (end >= 1) return { seconds: null, low: null, high: null };
  const amongCompleting = (share: number) => (share - end) / (1 - end);
  return bandedQuantile(
    steps.map((step) => ({
      ...step,
      share: amongCompleting(step.share),
      low: amongCompleting(step.low),
      high: amongCompleting(step.high),
    })),
    quantile,
  );
}
