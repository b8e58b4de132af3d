/**
 * Detects whether the boots of a pool became slower, and since when.
 *
 * Each boot gets a Gehan score: the number of boots that were certainly faster minus the number
 * that were certainly slower. A boot that never arrived is only known to exceed its waiting time.
 * The change is at the split with the strongest difference in scores. Scores are ranks, so outliers
 * weigh little, and one pass tests all splits.
 */
import { hasArrived, quantileOf, survivalCurve, type TimedBoot } from './survival.ts';

export interface DatedBoot extends TimedBoot {
  started_at: Date;
}

export interface BootShiftSettings {
  /** The interval between two passes. */
  every_seconds: number;
  /** Arrivals required since the change; with fewer arrivals the median is unreliable. */
  fewest_boots: number;
  /** Arrivals required before the change. */
  fewest_former_boots: number;
  /** The median must grow by this factor. */
  factor: number;
  /** The median must also grow by this share of the budget: 1 s more of 12 min does not matter. */
  budget_share: number;
  /** After this long, the slower pace counts as normal. */
  usual_after_seconds: number;
}

const day = 86_400;
export const defaultBootShiftSettings: BootShiftSettings = {
  every_seconds: 60,
  fewest_boots: 20,
  fewest_former_boots: 50,
  factor: 1.2,
  budget_share: 0.02,
  usual_after_seconds: 7 * day,
};

/** Boots up to this age are compared, as for learned budgets. */
export const maxComparedAgeSeconds = 30 * day;

/**
 * How many standard errors make a shift. Every boot triggers a test of every split, so there are
 * thousands of tests; at 5 standard errors, one in three million reports a shift by chance. A known
 * shift needs less to stay open, so that it does not flap.
 */
const minStdErrorsToOpen = 5;
const minStdErrorsToStay = 3.5;
const minStdErrors = (isKnown: boolean) => (isKnown ? minStdErrorsToStay : minStdErrorsToOpen);

/** A slowdown that lasts this share of a day does not depend on the time of day. */
const wholeDayShare = 0.8;

export interface ShiftQuestion {
  now: Date;
  budget_seconds: number;
  settings: BootShiftSettings;
  /** Whether an open finding already reports a shift, which is now tested again. */
  is_known: boolean;
}

export interface Shift<B extends DatedBoot> {
  /** The start of the first slower boot. */
  since: Date;
  former: B[];
  slower: B[];
  former_seconds: number;
  slower_seconds: number;
}

/** Counts the sorted values below `value`; with `orSame`, those equal to it too. */
function countBelow(sorted: Float64Array, value: number, orSame: boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const candidate = sorted[middle] ?? 0;
    if (candidate < value || (orSame && candidate === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The score of each boot: the number of certainly faster boots minus the number of certainly slower
 * ones. The scores sum to zero.
 */
function scoresOf(boots: readonly TimedBoot[]): Float64Array {
  const arrivals = Float64Array.from(boots.filter(hasArrived), ({ seconds }) => seconds).sort();
  const censored = Float64Array.from(
    boots.filter((boot) => !hasArrived(boot)),
    ({ seconds }) => seconds,
  ).sort();
  return Float64Array.from(boots, (boot) => {
    const { seconds } = boot;
    if (!hasArrived(boot)) return countBelow(arrivals, seconds, true);
    const slowerArrivals = arrivals.length - countBelow(arrivals, seconds, true);
    const slowerCensored = censored.length - countBelow(censored, seconds, false);
    return countBelow(arrivals, seconds, false) - slowerArrivals - slowerCensored;
  });
}

interface Split {
  /** The index of the first boot after the split. */
  at: number;
  /** Positive: slower after the split. */
  z: number;
}

/**
 * Yields for each split by how many standard errors the later boots are slower than they would be
 * in random order.
 */
function* computeSplits(boots: readonly TimedBoot[]): Generator<Split> {
  const scores = scoresOf(boots);
  const count = boots.length;
  const squares = scores.reduce((sum, score) => sum + score * score, 0);
  const scoreVariance = squares / (count * (count - 1));
  let scoreAfter = 0;
  for (let at = count - 1; at > 0; at--) {
    scoreAfter += scores[at] ?? 0;
    const stdError = Math.sqrt(scoreVariance * at * (count - at));
    if (stdError > 0) yield { at, z: scoreAfter / stdError };
  }
}

/** By how many standard errors the later boots are slower than the former ones. */
export function slownessOf(former: readonly TimedBoot[], later: readonly TimedBoot[]): number {
  for (const { at, z } of computeSplits([...former, ...later])) if (at === former.length) return z;
  return 0;
}

/**
 * The split after which boots are slower by the most standard errors, among those with enough
 * arrivals on both sides. With `direction` -1, the split after which boots are faster.
 */
function findStrongestSplit(
  boots: readonly TimedBoot[],
  fewestBefore: number,
  fewestAfter: number,
  direction: 1 | -1 = 1,
) {
  const arrivals = boots.reduce((sum, boot) => sum + Number(hasArrived(boot)), 0);
  let best: Split | undefined;
  let arrivalsAfter = 0;
  let last = boots.length;
  for (const { at, z } of computeSplits(boots)) {
    for (; last > at; last--) arrivalsAfter += Number(hasArrived(boots[last - 1] ?? { outcome: 'cancelled' }));
    if (arrivalsAfter < fewestAfter || arrivals - arrivalsAfter < fewestBefore) continue;
    if (!best || z * direction > best.z) best = { at, z: z * direction };
  }
  return best;
}

/** The median duration of the boots that complete. */
export const medianOf = (boots: readonly TimedBoot[]): number => quantileOf(survivalCurve(boots), 0.5) ?? 0;

/**
 * The median at the same hours of earlier days, because a pool that is slow every night has not
 * become slower. Zero if there are too few such boots, or the slowdown lasts for most of a day.
 */
function medianAtSameHours(
  boots: readonly DatedBoot[],
  slower: readonly DatedBoot[],
  settings: BootShiftSettings,
): number {
  const since = slower[0]?.started_at.getTime() ?? 0;
  const durationSeconds = ((slower.at(-1)?.started_at.getTime() ?? 0) - since) / 1000;
  if (durationSeconds > wholeDayShare * day) return 0;
  const bootsAtSameHours = boots.filter(({ started_at }) => {
    const earlier = (since - started_at.getTime()) / 1000;
    return earlier > 0 && earlier <= settings.usual_after_seconds && (day - (earlier % day)) % day <= durationSeconds;
  });
  return bootsAtSameHours.filter(hasArrived).length < settings.fewest_boots / 2 ? 0 : medianOf(bootsAtSameHours);
}

/** Consecutive boots per run. */
const runLength = 10;
/**
 * The variance between runs is measured without the runs that differ most, because a past incident
 * is not noise. The middle 75 % of a normal distribution have 36.84 % of its variance.
 */
const keptRunShare = 0.75;
const keptVarianceShare = 0.3684;
/** The required standard errors, before they are corrected for correlated boots. */
const minStdErrorsBeforeCorrection = 4;

/**
 * How much more runs of boots vary than independent boots would. Boots on the same hosts in the
 * same hour are correlated, so ten of them carry less information than ten independent ones.
 */
function varianceInflation(former: readonly TimedBoot[]): number {
  const scores = scoresOf(former);
  const squares = scores.reduce((sum, score) => sum + score * score, 0) / scores.length;
  const runs = Array.from({ length: Math.floor(scores.length / runLength) }, (_, place) =>
    scores.subarray(place * runLength, (place + 1) * runLength).reduce((sum, score) => sum + score, 0),
  );
  const runSquares = runs.map((sum) => sum * sum).sort((one, other) => one - other);
  runSquares.length = Math.ceil(runSquares.length * keptRunShare);
  if (runSquares.length === 0 || squares === 0) return 1;
  const varianceOfRuns = runSquares.reduce((sum, square) => sum + square, 0) / runSquares.length / keptVarianceShare;
  return Math.max(1, varianceOfRuns / (runLength * squares));
}

/** Whether the slowdown has ended: the latest of the slower boots are as fast as before it. */
function hasEnded(slower: readonly TimedBoot[], goodSeconds: number, { fewest_boots }: BootShiftSettings): boolean {
  const recovery = findStrongestSplit(slower, fewest_boots, fewest_boots, -1);
  return recovery !== undefined && recovery.z > minStdErrorsToStay && medianOf(slower.slice(recovery.at)) < goodSeconds;
}

function judgeSplit<B extends DatedBoot>(all: readonly B[], window: readonly B[], at: number, question: ShiftQuestion) {
  const { settings, is_known, budget_seconds } = question;
  const [former, slower] = [window.slice(0, at), window.slice(at)];
  const since = slower[0]?.started_at ?? question.now;
  const former_seconds = medianOf(former);
  const slower_seconds = medianOf(slower);
  // A known shift stays until the median falls below halfway between the former median and a
  // reportable one.
  const halfFactor = (1 + settings.factor) / 2;
  const minSeconds = former_seconds * (is_known ? halfFactor : settings.factor);
  if (slower_seconds < minSeconds || hasEnded(slower, former_seconds * halfFactor, settings)) return undefined;
  // This test counts only arrivals: in an outage many boots never arrive, but those that do are not
  // slower.
  const arrivals = former.filter(hasArrived);
  const required = is_known
    ? minStdErrorsToStay
    : Math.max(minStdErrorsToOpen, minStdErrorsBeforeCorrection * Math.sqrt(varianceInflation(arrivals)));
  if (slownessOf(arrivals, slower.filter(hasArrived)) < required) return undefined;
  const isSmall = slower_seconds - former_seconds < settings.budget_share * budget_seconds;
  if (!is_known && (isSmall || slower_seconds < medianAtSameHours(all, slower, settings) * settings.factor))
    return undefined;
  return { since, former, slower, former_seconds, slower_seconds } satisfies Shift<B>;
}

/**
 * The latest change to slower boots, if there is one. Expects the boots in order of their start.
 * Ignores changes so old that their pace counts as normal.
 */
export function findShift<B extends DatedBoot>(boots: readonly B[], question: ShiftQuestion): Shift<B> | undefined {
  const { settings, is_known, now } = question;
  const normalBeforeMs = now.getTime() - settings.usual_after_seconds * 1000;
  let window = boots;
  for (;;) {
    const split = findStrongestSplit(window, settings.fewest_former_boots, settings.fewest_boots);
    if (!split || split.z < minStdErrors(is_known)) return undefined;
    const changedAtMs = window[split.at]?.started_at.getTime() ?? 0;
    const shift = changedAtMs > normalBeforeMs ? judgeSplit(boots, window, split.at, question) : undefined;
    if (shift) return shift;
    // This change is old or too small. Boots before it say nothing about current boots.
    window = window.slice(split.at);
  }
}
