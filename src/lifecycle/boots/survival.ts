/**
 * Kaplan-Meier estimate of boot durations, which includes boots with only a lower bound. Errors by
 * Greenwood's formula; confidence bands on the log(−log S) scale, which keeps them between 0 and 1.
 */
import type { SampleOutcome } from './boot-samples.ts';

/** `running`: not over yet; its duration so far is a lower bound. */
export interface TimedBoot {
  seconds: number;
  outcome: SampleOutcome | 'running';
}

/** From `seconds` on, this share of boots has not arrived. */
export interface SurvivalStep {
  seconds: number;
  share: number;
}

/** With the confidence band of the share. */
export interface BandedStep extends SurvivalStep {
  low: number;
  high: number;
}

/** With the numbers behind the estimate. */
export interface EstimatedStep extends BandedStep {
  /** Boots still under observation just before, and those that arrived at this time. */
  at_risk: number;
  arrivals: number;
  std_error: number;
}

/** In time or late. For all other boots the duration is a lower bound. */
export const hasArrived = ({ outcome }: Pick<TimedBoot, 'outcome'>): boolean =>
  outcome === 'completed' || outcome === 'late';

/** The two-sided 95 % quantile of the normal distribution. */
export const normalQuantile95 = 1.959963984540054;

/**
 * When all boots have arrived, the formula is undefined, but a slower boot is still possible: the
 * upper bound stays at its last value. Otherwise the slowest of six boots would pass for the 99th
 * percentile.
 */
function band(share: number, sum: number, z: number, highBefore: number): Pick<EstimatedStep, 'low' | 'high'> {
  if (share <= 0) return { low: 0, high: highBefore };
  const log = Math.log(share);
  const reach = Math.exp((z * Math.sqrt(sum)) / Math.abs(log));
  return { low: Math.exp(log * reach), high: Math.exp(log / reach) };
}

function secondsOf(boots: readonly TimedBoot[]): Float64Array {
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
 * The arrival times, fastest first. A boot observed until the same time counts as at risk just
 * before it.
 */
function moments(boots: readonly TimedBoot[]): Moment[] {
  const arrivalTimes = secondsOf(boots.filter(hasArrived));
  const censoredTimes = secondsOf(boots.filter((boot) => !hasArrived(boot)));
  const found: Moment[] = [];
  let censored = 0;
  for (let at = 0; at < arrivalTimes.length; ) {
    const seconds = arrivalTimes[at] ?? 0;
    while (censored < censoredTimes.length && (censoredTimes[censored] ?? 0) < seconds) censored++;
    const before = at;
    // Negated, so that the loop also ends for NaN.
    while (at < arrivalTimes.length && !((arrivalTimes[at] ?? 0) > seconds)) at++;
    found.push({ seconds, at_risk: boots.length - before - censored, arrivals: at - before });
  }
  return found;
}

/** One step per arrival time, fastest first. `z`: the width of the bands. */
export function estimateSurvival(boots: readonly TimedBoot[], z = normalQuantile95): EstimatedStep[] {
  let share = 1;
  let greenwood = 0;
  let highBefore = 1;
  return moments(boots).map(({ seconds, at_risk, arrivals }) => {
    share *= 1 - arrivals / at_risk;
    greenwood += arrivals / (at_risk * (at_risk - arrivals));
    const std_error = arrivals === at_risk ? 0 : share * Math.sqrt(greenwood);
    const { low, high } = band(share, greenwood, z, highBefore);
    highBefore = high;
    return { seconds, share, at_risk, arrivals, std_error, low, high };
  });
}

/** Starts at 1 and ends with the share that did not arrive while it was observed. */
export function survivalCurve(boots: readonly TimedBoot[]): SurvivalStep[] {
  let share = 1;
  const steps = moments(boots).map(({ seconds, at_risk, arrivals }) => {
    share *= 1 - arrivals / at_risk;
    return { seconds, share };
  });
  return [{ seconds: 0, share: 1 }, ...steps];
}

/** The time by which this share of the completing boots has arrived; null if none completed. */
export function quantileOf(curve: readonly SurvivalStep[], quantile: number): number | null {
  const end = curve.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const reached = curve.find(({ share }) => (share - end) / (1 - end) <= 1 - quantile + 1e-9);
  return reached?.seconds ?? null;
}

export interface BandedQuantile {
  seconds: number | null;
  /** Null: the observed boots do not reach this share. */
  low: number | null;
  high: number | null;
}

/**
 * The time by which a share of all boots has arrived, with the times at which the bands cross that
 * share.
 */
export function bandedQuantile(steps: readonly EstimatedStep[], quantile: number): BandedQuantile {
  const left = 1 - quantile + 1e-12;
  const firstWhere = (isReached: (step: EstimatedStep) => boolean) => steps.find(isReached)?.seconds ?? null;
  return {
    seconds: firstWhere(({ share }) => share <= left),
    low: firstWhere(({ low }) => low <= left),
    high: firstWhere(({ high }) => high <= left),
  };
}

/** As `bandedQuantile`, but among the boots that complete. */
export function bandedCompletion(steps: readonly EstimatedStep[], quantile: number): BandedQuantile {
  const end = steps.at(-1)?.share ?? 1;
  if (end >= 1) return { seconds: null, low: null, high: null };
  const ofThoseThatCome = (share: number) => (share - end) / (1 - end);
  return bandedQuantile(
    steps.map((step) => ({
      ...step,
      share: ofThoseThatCome(step.share),
      low: ofThoseThatCome(step.low),
      high: ofThoseThatCome(step.high),
    })),
    quantile,
  );
}
