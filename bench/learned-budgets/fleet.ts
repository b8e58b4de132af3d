/**
 * Draws the boots of a pool over weeks of virtual time. A boot has a start, progress reports and,
 * unless it is stuck, an arrival.
 */
import { type Random, seededRandom } from '../../test/properties/support/random.ts';
import { fleet, type PoolParameters, pools } from './parameters.ts';

export const daySeconds = 86_400;
const weekSeconds = 7 * daySeconds;
export const totalSeconds = fleet.weeks * weekSeconds;

/** Boots in order of start, stored as columns because there are millions. */
export interface Boots {
  count: number;
  /** The start of each boot, in seconds of virtual time. */
  starts: Float64Array;
  /** The duration of each boot; infinite if stuck. */
  durations: Float64Array;
  /** The number of progress reports per boot in this pool. */
  reportCount: number;
  /**
   * Seconds after the start, `reportCount` entries per boot; infinite if the report is never sent.
   */
  reportTimes: Float64Array;
  /** When the pool's image changes; infinite if it does not. */
  new_image_at: number;
}

/** Box–Muller transform. */
const normal = (dice: Random): number =>
  Math.sqrt(-2 * Math.log(1 - dice.next())) * Math.cos(2 * Math.PI * dice.next());

const bounded = (seconds: number): number => {
  const [least, most] = fleet.median_bounds;
  return Math.max(least, Math.min(most, seconds));
};

/** Returns a function that gives the median boot time at a moment, interpolated between weeks. */
export function drawMedian(pool: PoolParameters, dice: Random): (at: number) => number {
  const weekly = [pool.median_seconds];
  for (let week = 1; week <= fleet.weeks; week++) {
    const step = pool.drift_per_week * Math.exp(fleet.wander_per_week * normal(dice));
    weekly.push(bounded((weekly[week - 1] ?? pool.median_seconds) * step));
  }
  const changesAt = newImageAt(pool);
  return (at) => {
    const week = Math.min(fleet.weeks - 1, Math.floor(at / weekSeconds));
    const [from = 0, to = 0] = weekly.slice(week, week + 2);
    const drifted = from * (to / from) ** (at / weekSeconds - week);
    return bounded(at < changesAt ? drifted : drifted * (pool.new_image?.factor ?? 1));
  };
}

const newImageAt = ({ new_image }: PoolParameters): number =>
  new_image ? new_image.week * weekSeconds : Number.POSITIVE_INFINITY;

/** Draws the usual duration of a completing boot, and the time that a slow part adds. */
function drawSeconds(pool: PoolParameters, median: number, dice: Random): { usual: number; added: number } {
  for (;;) {
    const usual = median * Math.exp(pool.sigma * normal(dice));
    const factor = dice.chance(pool.tail_share) ? (1 - dice.next()) ** (-1 / pool.tail_exponent) : 1;
    if (usual * factor <= fleet.longest_seconds) return { usual, added: usual * (factor - 1) };
  }
}

/** Picks a part with probability proportional to its share. */
function pickPart(parts: readonly number[], random: number): number {
  let remaining = random;
  const picked = parts.findIndex((share) => {
    remaining -= share;
    return remaining < 0;
  });
  return picked < 0 ? parts.length - 1 : picked;
}

/** Draws the seconds of each part of one boot. */
function drawParts(pool: PoolParameters, median: number, dice: Random): number[] {
  const { usual, added } = drawSeconds(pool, median, dice);
  const weights = pool.parts.map((share) => share * Math.exp(fleet.parts_sigma * normal(dice)));
  const totalWeight = weights.reduce((sum, weight) => sum + weight, 0);
  const slow = pickPart(pool.parts, dice.next());
  return weights.map((weight, part) => (usual * weight) / totalWeight + (part === slow ? added : 0));
}

function drawStarts(pool: PoolParameters, dice: Random): number[] {
  const starts: number[] = [];
  let at = 0;
  for (;;) {
    at += (-Math.log(1 - dice.next()) * daySeconds) / pool.boots_per_day;
    if (at >= totalSeconds) return starts;
    starts.push(at);
  }
}

/** Returns the same boots for the same seed, independent of other pools. */
export function drawBoots(pool: PoolParameters, seed: number): Boots {
  const dice = seededRandom(seed, pools.indexOf(pool));
  const medianAt = drawMedian(pool, dice);
  const starts = Float64Array.from(drawStarts(pool, dice));
  const count = starts.length;
  const reportCount = pool.parts.length - 1;
  const durations = new Float64Array(count);
  const reportTimes = new Float64Array(count * reportCount).fill(Number.POSITIVE_INFINITY);
  for (let boot = 0; boot < count; boot++) {
    const parts = drawParts(pool, medianAt(starts[boot] ?? 0), dice);
    const isStuck = dice.chance(fleet.stuck_share);
    const stuckIn = isStuck ? Math.floor(dice.next() * parts.length) : parts.length;
    let reached = 0;
    for (let part = 0; part < stuckIn; part++) {
      reached += parts[part] ?? 0;
      if (part < reportCount) reportTimes[boot * reportCount + part] = reached;
    }
    durations[boot] = isStuck ? Number.POSITIVE_INFINITY : reached;
  }
  return { count, starts, durations, reportCount, reportTimes, new_image_at: newImageAt(pool) };
}
