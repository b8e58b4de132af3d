/**
 * What recorded boots say about how long one takes, those included of which only a lower bound is known: the estimator of Kaplan and
 * Meier, its error by Greenwood's formula, and bands on the scale log(−log S), which keeps them between nothing and one. Pure.
 */
import type { SampleOutcome } from './boot-samples.ts';

/** `running`: not over yet, so nothing is known beyond this. */
export interface TimedBoot {
  seconds: number;
  outcome: SampleOutcome | 'running';
}

/** From `seconds` on, this share of boots is still on its way. */
export interface SurvivalStep {
  seconds: number;
  share: number;
}

/** A step, and between which shares the true one lies, with the confidence that was asked for. */
export interface BandedStep extends SurvivalStep {
  low: number;
  high: number;
}

/** A step with what it rests on. */
export interface EstimatedStep extends BandedStep {
  /** How many were still watched just before, and how many of them arrived then. */
  at_risk: number;
  arrivals: number;
  std_error: number;
}

/** It came, however late; of the others we only know that they had not come by then. */
export const hasArrived = ({ outcome }: Pick<TimedBoot, 'outcome'>): boolean =>
  outcome === 'completed' || outcome === 'late';

/** Of the normal distribution, by its two sides: 95 in a hundred lie within. */
export const normalQuantile95 = 1.959963984540054;

/**
 * Where everybody has arrived the formula has no answer, and yet a slower one may come: what was possible just before still is.
 * Without that, the slowest of six boots would pass for what 99 of 100 need.
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

/** Whenever boots arrived, the quickest first. One that was watched until the same moment was still watched just before. */
function moments(boots: readonly TimedBoot[]): Moment[] {
  const came = secondsOf(boots.filter(hasArrived));
  const watched = secondsOf(boots.filter((boot) => !hasArrived(boot)));
  const found: Moment[] = [];
  let lost = 0;
  for (let at = 0; at < came.length; ) {
    const seconds = came[at] ?? 0;
    while (lost < watched.length && (watched[lost] ?? 0) < seconds) lost++;
    const before = at;
    // Whatever is not later, so that even what is no number comes to an end.
    while (at < came.length && !((came[at] ?? 0) > seconds)) at++;
    found.push({ seconds, at_risk: boots.length - before - lost, arrivals: at - before });
  }
  return found;
}

/** A step wherever boots arrived, the quickest first. `z`: how wide the bands are. */
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

/** Steps down where boots arrived; begins at one and ends with the share that never came within what was watched. */
export function survivalCurve(boots: readonly TimedBoot[]): SurvivalStep[] {
  let share = 1;
  const steps = moments(boots).map(({ seconds, at_risk, arrivals }) => {
    share *= 1 - arrivals / at_risk;
    return { seconds, share };
  });
  return [{ seconds: 0, share: 1 }, ...steps];
}

/** Of the boots that complete, `quantile` have by then; null where none has. */
export function quantileOf(curve: readonly SurvivalStep[], quantile: number): number | null {
  const end = curve.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const reached = curve.find(({ share }) => (share - end) / (1 - end) <= 1 - quantile + 1e-9);
  return reached?.seconds ?? null;
}

export interface BandedQuantile {
  seconds: number | null;
  /** Null: the boots that were watched do not reach so far. */
  low: number | null;
  high: number | null;
}

/** By when a share of all boots has arrived, and between which times that lies: where the bands cross the same share. */
export function bandedQuantile(steps: readonly EstimatedStep[], quantile: number): BandedQuantile {
  const left = 1 - quantile + 1e-12;
  const firstWhere = (isReached: (step: EstimatedStep) => boolean) => steps.find(isReached)?.seconds ?? null;
  return {
    seconds: firstWhere(({ share }) => share <= left),
    low: firstWhere(({ low }) => low <= left),
    high: firstWhere(({ high }) => high <= left),
  };
}

/** The same of the boots that complete: those that never come are left out, from the share as from its bands. */
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
