/**
 * Whether the boots of a pool have become slower, and since when. Pure.
 *
 * Every boot is scored by how many others were surely quicker and how many surely slower than it, where one that never came is only known to
 * take longer than it was waited for (Gehan's scores). The moment that splits the scores best is the change. Scores are ranks, so a heavy
 * tail weighs no more than a light one, and all moments are tried for the price of one pass.
 */
import { hasArrived, quantileOf, survivalCurve, type TimedBoot } from './survival.ts';

export interface DatedBoot extends TimedBoot {
  started_at: Date;
}

export interface BootShiftSettings {
  /** From one look to the next. */
  every_seconds: number;
  /** So many must have arrived since the change: of fewer, the middle one says little. */
  fewest_boots: number;
  /** And so many before it, or nobody knows what is usual. */
  fewest_former_boots: number;
  /** The middle boot takes so many times as long. */
  factor: number;
  /** And adds so much of the budget: a second more on the way to twelve minutes is nobody's concern. */
  budget_share: number;
  /** A pace that has lasted so long is the usual one. */
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

/** What is usual is asked of boots as old as those that budgets are learned from. */
export const maxComparedAgeSeconds = 30 * day;

/**
 * In standard errors. It is asked with every boot and for every moment, so chance gets thousands of tries: at 5 it wins one of three million.
 * What stands already needs less to stay, or it would come and go.
 */
const surelyChanged = 5;
const surelyStill = 3.5;
const sureAt = (standing: boolean) => (standing ? surelyStill : surelyChanged);

/** A pace that has lasted so much of a day is not one of its hours. */
const mostOfADay = 0.8;

export interface ShiftQuestion {
  now: Date;
  budget_seconds: number;
  settings: BootShiftSettings;
  /** It was found before, and is asked about again. */
  standing: boolean;
}

export interface Shift<B extends DatedBoot> {
  /** When the first slower boot began. */
  since: Date;
  former: B[];
  slower: B[];
  former_seconds: number;
  slower_seconds: number;
}

/** How many of the sorted are less than this; with `orSame`, also those that are the same. */
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

/** Of each boot: how many others were surely quicker, less how many were surely slower. They add up to nothing. */
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
  /** The first boot after it. */
  at: number;
  /** Above nothing: slower since then. */
  z: number;
}

/** By how many standard errors the boots from each moment on are slower than those before it, were their order mere chance. */
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

/** Of two groups: by how many standard errors the latter is slower. */
export function slownessOf(former: readonly TimedBoot[], latter: readonly TimedBoot[]): number {
  for (const { at, z } of splitsOf([...former, ...latter])) if (at === former.length) return z;
  return 0;
}

/** The strongest change to slower boots that leaves enough arrivals on both sides; to faster ones, where `way` is turned round. */
function strongest(boots: readonly TimedBoot[], fewestBefore: number, fewestAfter: number, way: 1 | -1 = 1) {
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

/** Of those that complete, the middle one. */
export const medianOf = (boots: readonly TimedBoot[]): number => quantileOf(survivalCurve(boots), 0.5) ?? 0;

/** What boots took at the same hours of the days before: a pool that is slow every night is not slower than it was. */
function atTheseHours(known: readonly DatedBoot[], slower: readonly DatedBoot[], settings: BootShiftSettings): number {
  const since = slower[0]?.started_at.getTime() ?? 0;
  const lasted = ((slower.at(-1)?.started_at.getTime() ?? 0) - since) / 1000;
  if (lasted > mostOfADay * day) return 0;
  const alike = known.filter(({ started_at }) => {
    const earlier = (since - started_at.getTime()) / 1000;
    return earlier > 0 && earlier <= settings.usual_after_seconds && (day - (earlier % day)) % day <= lasted;
  });
  return alike.filter(hasArrived).length < settings.fewest_boots / 2 ? 0 : medianOf(alike);
}

/** So many that follow one another are one run. */
const run = 10;
/** The runs that differ most are left out, for an incident that is over is no luck; of a normal distribution the others have this share of its variance. */
const runsKept = 0.75;
const varianceKept = 0.3684;
/** In standard errors of boots that share their luck. */
const surelyNoLuck = 4;

/**
 * By how much more runs of boots differ from one another than they would if each boot were long or short for itself. Those that come up
 * on the same hosts in the same hour share their luck, and ten of them are fewer than ten witnesses.
 */
function clumping(former: readonly TimedBoot[]): number {
  const scores = scoresOf(former);
  const squares = scores.reduce((sum, score) => sum + score * score, 0) / scores.length;
  const runs = Array.from({ length: Math.floor(scores.length / run) }, (_, place) =>
    scores.subarray(place * run, (place + 1) * run).reduce((sum, score) => sum + score, 0),
  );
  const kept = runs.map((sum) => sum * sum).sort((one, other) => one - other);
  kept.length = Math.ceil(kept.length * runsKept);
  if (kept.length === 0 || squares === 0) return 1;
  const between = kept.reduce((sum, square) => sum + square, 0) / kept.length / varianceKept;
  return Math.max(1, between / (run * squares));
}

/** They were slower for a while, and those that came last are as before. */
function isOver(slower: readonly TimedBoot[], goodSeconds: number, { fewest_boots }: BootShiftSettings): boolean {
  const back = strongest(slower, fewest_boots, fewest_boots, -1);
  return back !== undefined && back.z > surelyStill && medianOf(slower.slice(back.at)) < goodSeconds;
}

function judge<B extends DatedBoot>(all: readonly B[], window: readonly B[], at: number, question: ShiftQuestion) {
  const { settings, standing, budget_seconds } = question;
  const [former, slower] = [window.slice(0, at), window.slice(at)];
  const since = slower[0]?.started_at ?? question.now;
  const former_seconds = medianOf(former);
  const slower_seconds = medianOf(slower);
  /** Halfway between the usual and what is worth telling. */
  const half = (1 + settings.factor) / 2;
  const least = former_seconds * (standing ? half : settings.factor);
  if (slower_seconds < least || isOver(slower, former_seconds * half, settings)) return undefined;
  // An outage alone makes none of those slower that arrive.
  const came = former.filter(hasArrived);
  const sure = standing ? surelyStill : Math.max(surelyChanged, surelyNoLuck * Math.sqrt(clumping(came)));
  if (slownessOf(came, slower.filter(hasArrived)) < sure) return undefined;
  const isSmall = slower_seconds - former_seconds < settings.budget_share * budget_seconds;
  if (!standing && (isSmall || slower_seconds < atTheseHours(all, slower, settings) * settings.factor))
    return undefined;
  return { since, former, slower, former_seconds, slower_seconds } satisfies Shift<B>;
}

/** The boots in the order in which they began. Faster ones are no news, and neither is what changed so long ago that it is the usual. */
export function findShift<B extends DatedBoot>(boots: readonly B[], question: ShiftQuestion): Shift<B> | undefined {
  const { settings, standing, now } = question;
  const newsFrom = now.getTime() - settings.usual_after_seconds * 1000;
  let window = boots;
  for (;;) {
    const split = strongest(window, settings.fewest_former_boots, settings.fewest_boots);
    if (!split || split.z < sureAt(standing)) return undefined;
    const began = window[split.at]?.started_at.getTime() ?? 0;
    const shift = began > newsFrom ? judge(boots, window, split.at, question) : undefined;
    if (shift) return shift;
    // An older change, or one that is nobody's concern: what came before it says nothing about the boots of now.
    window = window.slice(split.at);
  }
}
