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
  /** Between two passes. */
  every_seconds: number;
  /** Arrivals required since the change; with fewer the median is unreliable. */
  fewest_boots: number;
  /** Arrivals required before the change. */
  fewest_former_boots: number;
  /** The median must grow by this factor. */
  factor: number;
  /** And by this share of the budget: one second more of twelve minutes does not matter. */
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
 * In standard errors. Every boot triggers a test of every split, so chance gets thousands of tries;
 * at 5 it wins one in three million. A known shift stays open with less, so that it does not flap.
 */
const surelyChanged = 5;
const surelyStill = 3.5;
const sureAt = (standing: boolean) => (standing ? surelyStill : surelyChanged);

/** A pace that lasts this share of a day does not depend on the time of day. */
const wholeDayShare = 0.8;

export interface ShiftQuestion {
  now: Date;
  budget_seconds: number;
  settings: BootShiftSettings;
  /** The shift is already known and is tested again. */
  standing: boolean;
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
    const there = sorted[middle] ?? 0;
    if (there < value || (orSame && there === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * For each boot, the number of certainly faster boots minus the number of certainly slower ones.
 * They sum to zero.
 */
function scoresOf(boots: readonly TimedBoot[]): Float64Array {
  const came = Float64Array.from(boots.filter(hasArrived), ({ seconds }) => seconds).sort();
  const others = Float64Array.from(
    boots.filter((boot) => !hasArrived(boot)),
    ({ seconds }) => seconds,
  ).sort();
  return Float64Array.from(boots, (boot) => {
    const { seconds } = boot;
    if (!hasArrived(boot)) return countBelow(came, seconds, true);
    const slower = came.length - countBelow(came, seconds, true) + others.length - countBelow(others, seconds, false);
    return countBelow(came, seconds, false) - slower;
  });
}

interface Split {
  /** The index of the first boot after the split. */
  at: number;
  /** Positive: slower after the split. */
  z: number;
}

/**
 * For each split, how many standard errors the later boots are slower, against the null hypothesis
 * of random order.
 */
function* splitsOf(boots: readonly TimedBoot[]): Generator<Split> {
  const scores = scoresOf(boots);
  const count = boots.length;
  const squares = scores.reduce((sum, score) => sum + score * score, 0);
  const unit = squares / (count * (count - 1));
  let after = 0;
  for (let at = count - 1; at > 0; at--) {
    after += scores[at] ?? 0;
    const spread = Math.sqrt(unit * at * (count - at));
    if (spread > 0) yield { at, z: after / spread };
  }
}

/** How many standard errors the latter group is slower. */
export function slownessOf(former: readonly TimedBoot[], latter: readonly TimedBoot[]): number {
  for (const { at, z } of splitsOf([...former, ...latter])) if (at === former.length) return z;
  return 0;
}

/**
 * The strongest split towards slower boots with enough arrivals on both sides. `way` -1: towards
 * faster boots.
 */
function strongestSplit(boots: readonly TimedBoot[], fewestBefore: number, fewestAfter: number, way: 1 | -1 = 1) {
  const arrivals = boots.reduce((sum, boot) => sum + Number(hasArrived(boot)), 0);
  let best: Split | undefined;
  let after = 0;
  let last = boots.length;
  for (const { at, z } of splitsOf(boots)) {
    for (; last > at; last--) after += Number(hasArrived(boots[last - 1] ?? { outcome: 'cancelled' }));
    if (after < fewestAfter || arrivals - after < fewestBefore) continue;
    if (!best || z * way > best.z) best = { at, z: z * way };
  }
  return best;
}

/** The median of the boots that complete. */
export const medianOf = (boots: readonly TimedBoot[]): number => quantileOf(survivalCurve(boots), 0.5) ?? 0;

/**
 * The median at the same hours of earlier days: a pool that is slow every night has not become
 * slower.
 */
function medianAtTheseHours(
  known: readonly DatedBoot[],
  slower: readonly DatedBoot[],
  settings: BootShiftSettings,
): number {
  const since = slower[0]?.started_at.getTime() ?? 0;
  const lasted = ((slower.at(-1)?.started_at.getTime() ?? 0) - since) / 1000;
  if (lasted > wholeDayShare * day) return 0;
  const alike = known.filter(({ started_at }) => {
    const earlier = (since - started_at.getTime()) / 1000;
    return earlier > 0 && earlier <= settings.usual_after_seconds && (day - (earlier % day)) % day <= lasted;
  });
  return alike.filter(hasArrived).length < settings.fewest_boots / 2 ? 0 : medianOf(alike);
}

/** Consecutive boots per run. */
const runLength = 10;
/**
 * Drops the runs that differ most, because a past incident is not noise. The rest of a normal
 * distribution has this share of its variance.
 */
const runsKept = 0.75;
const varianceKept = 0.3684;
/** In standard errors, corrected for boots that influence each other. */
const surelyNotNoise = 4;

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
  const kept = runs.map((sum) => sum * sum).sort((one, other) => one - other);
  kept.length = Math.ceil(kept.length * runsKept);
  if (kept.length === 0 || squares === 0) return 1;
  const between = kept.reduce((sum, square) => sum + square, 0) / kept.length / varianceKept;
  return Math.max(1, between / (runLength * squares));
}

/** They were slower for a while, and the latest boots are as fast as before. */
function isOver(slower: readonly TimedBoot[], goodSeconds: number, { fewest_boots }: BootShiftSettings): boolean {
  const back = strongestSplit(slower, fewest_boots, fewest_boots, -1);
  return back !== undefined && back.z > surelyStill && medianOf(slower.slice(back.at)) < goodSeconds;
}

function judgeSplit<B extends DatedBoot>(all: readonly B[], window: readonly B[], at: number, question: ShiftQuestion) {
  const { settings, standing, budget_seconds } = question;
  const [former, slower] = [window.slice(0, at), window.slice(at)];
  const since = slower[0]?.started_at ?? question.now;
  const former_seconds = medianOf(former);
  const slower_seconds = medianOf(slower);
  /** Halfway between the former median and a reportable one. */
  const half = (1 + settings.factor) / 2;
  const least = former_seconds * (standing ? half : settings.factor);
  if (slower_seconds < least || isOver(slower, former_seconds * half, settings)) return undefined;
  // An outage alone does not slow down the boots that arrive.
  const came = former.filter(hasArrived);
  const sure = standing ? surelyStill : Math.max(surelyChanged, surelyNotNoise * Math.sqrt(varianceInflation(came)));
  if (slownessOf(came, slower.filter(hasArrived)) < sure) return undefined;
  const isSmall = slower_seconds - former_seconds < settings.budget_share * budget_seconds;
  if (!standing && (isSmall || slower_seconds < medianAtTheseHours(all, slower, settings) * settings.factor))
    return undefined;
  return { since, former, slower, former_seconds, slower_seconds } satisfies Shift<B>;
}

/**
 * Expects the boots in order of their start. Ignores faster boots, and changes so old that they
 * count as normal.
 */
export function findShift<B extends DatedBoot>(boots: readonly B[], question: ShiftQuestion): Shift<B> | undefined {
  const { settings, standing, now } = question;
  const newsFrom = now.getTime() - settings.usual_after_seconds * 1000;
  let window = boots;
  for (;;) {
    const split = strongestSplit(window, settings.fewest_former_boots, settings.fewest_boots);
    if (!split || split.z < sureAt(standing)) return undefined;
    const began = window[split.at]?.started_at.getTime() ?? 0;
    const shift = began > newsFrom ? judgeSplit(boots, window, split.at, question) : undefined;
    if (shift) return shift;
    // An old or irrelevant change: boots before it say nothing about current boots.
    window = window.slice(split.at);
  }
}
