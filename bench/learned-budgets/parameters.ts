/**
 * The fleets on which learned budgets are held against fixed ones. Written and committed before the first result was known, so
 * that nobody could choose them by it. What had to be changed since is told in docs/explanation/learned-budgets.md.
 */

/** One pool: how long its boots take, how that changes, and how much they say of themselves meanwhile. */
export interface PoolParameters {
  name: string;
  /** Of the boots that complete, at the start; log-normal around it. */
  median_seconds: number;
  /** Of the logarithm: 0.3 puts one boot in a hundred beyond twice the median, 0.5 beyond three times. */
  sigma: number;
  /** So many of the boots that complete meet something slow: the whole takes a factor of 1 or more as long, and what that adds falls in one part. */
  tail_share: number;
  /** The factor is Pareto's with this exponent: the smaller the heavier. A part is met as likely as its share is large. */
  tail_exponent: number;
  boots_per_day: number;
  /** What the median becomes in a week, as a factor. */
  drift_per_week: number;
  /** The image is replaced: from that week on the median is multiplied, and former boots are those of another make. */
  new_image?: { week: number; factor: number };
  /**
   * Which shares of a boot its parts take. The machine says something where one ends and the next begins, so one part alone means
   * that it says nothing before it arrives.
   */
  parts: readonly number[];
}

/** What a boot says of itself, from much to nothing. */
const parts = {
  many: [0.15, 0.1, 0.15, 0.15, 0.15, 0.1, 0.1, 0.1],
  some: [0.2, 0.3, 0.3, 0.2],
  /** As measured: 42 s until it speaks, an image pull of 107 s, and a set-up of 270 s of which nothing is heard. */
  lopsided: [0.1, 0.25, 0.65],
  none: [1],
} as const;

export const pools: readonly PoolParameters[] = [
  {
    ...{ name: 'sandboxes', median_seconds: 20, sigma: 0.25, tail_share: 0.01, tail_exponent: 2, boots_per_day: 60 },
    ...{ drift_per_week: 1.02, parts: parts.some },
  },
  {
    ...{ name: 'containers', median_seconds: 35, sigma: 0.35, tail_share: 0.02, tail_exponent: 2, boots_per_day: 60 },
    ...{ drift_per_week: 1, parts: parts.none },
  },
  {
    ...{ name: 'warm-vms', median_seconds: 60, sigma: 0.3, tail_share: 0.01, tail_exponent: 2.5, boots_per_day: 40 },
    ...{ drift_per_week: 0.97, parts: parts.many },
  },
  {
    ...{ name: 'runners', median_seconds: 90, sigma: 0.5, tail_share: 0.03, tail_exponent: 1.8, boots_per_day: 50 },
    ...{ drift_per_week: 1.03, parts: parts.some },
  },
  {
    ...{ name: 'small-vms', median_seconds: 140, sigma: 0.3, tail_share: 0.01, tail_exponent: 2, boots_per_day: 30 },
    ...{ drift_per_week: 1, parts: parts.many },
  },
  {
    ...{ name: 'growing', median_seconds: 180, sigma: 0.35, tail_share: 0.02, tail_exponent: 2, boots_per_day: 30 },
    ...{ drift_per_week: 1.08, parts: parts.some },
  },
  {
    ...{ name: 'far-registry', median_seconds: 240, sigma: 0.45, tail_share: 0.05, tail_exponent: 1.8 },
    ...{ boots_per_day: 25, drift_per_week: 1, parts: parts.lopsided },
  },
  {
    ...{ name: 'databases', median_seconds: 320, sigma: 0.3, tail_share: 0.01, tail_exponent: 2.5, boots_per_day: 8 },
    ...{ drift_per_week: 0.94, parts: parts.many },
  },
  {
    ...{ name: 'cold-images', median_seconds: 423, sigma: 0.3, tail_share: 0.03, tail_exponent: 2, boots_per_day: 25 },
    ...{ drift_per_week: 1.02, parts: parts.lopsided },
  },
  {
    ...{ name: 'new-image', median_seconds: 360, sigma: 0.3, tail_share: 0.02, tail_exponent: 2, boots_per_day: 20 },
    ...{ drift_per_week: 1, new_image: { week: 4, factor: 1.7 }, parts: parts.some },
  },
  {
    ...{ name: 'accelerators', median_seconds: 600, sigma: 0.35, tail_share: 0.03, tail_exponent: 2 },
    ...{ boots_per_day: 15, drift_per_week: 1, parts: parts.many },
  },
  {
    ...{ name: 'clusters', median_seconds: 900, sigma: 0.25, tail_share: 0.02, tail_exponent: 2.5, boots_per_day: 6 },
    ...{ drift_per_week: 0.98, parts: parts.some },
  },
];

export const fleet = {
  seeds: 200,
  weeks: 8,
  /** Of all boots: they never arrive, and stop in one of their parts, each part as likely as another. */
  stuck_share: 0.02,
  /** Beside its drift, each week's median wanders by so much: of the logarithm, from week to week, within the two bounds. */
  wander_per_week: 0.05,
  median_bounds: [20, 900],
  /** How unevenly boots of one pool divide into their parts: of the logarithm of each share. */
  parts_sigma: 0.25,
  /** A boot that takes longer is no boot that completes: such a draw is made again. */
  longest_seconds: 7200,
  /** How often a pool is asked what its boots teach. */
  asks_per_day: 1,
} as const;

/** The policies of peers: one number for every pool, no word of the machine heard, and destroyed at once. */
export const fixedBudgets = [600, 720, 900, 1800] as const;

/** What any fixed budget could do, for the curve that learned budgets are drawn beside. */
export const gridSeconds = [
  60, 75, 90, 120, 150, 180, 240, 300, 360, 420, 480, 540, 600, 720, 900, 1080, 1260, 1500, 1800, 2100, 2400, 3000,
  3600,
] as const;

/**
 * Two policies are called even in a measure that differs by less: one boot in a thousand, where twenty in a thousand are stuck, and a
 * hundredth of the time. What it would be without any such allowance is counted beside it.
 */
export const evenWithin = { false_kills_per_thousand: 1, found_share: 0.01 } as const;

/** What is claimed, and what the benchmark ends with 1 for where it does not hold. */
export const claims = { times_fewer_false_kills_than_600: 10, dominated_in_more_than_share_of_pools: 0.5 } as const;
