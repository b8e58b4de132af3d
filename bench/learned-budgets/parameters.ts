/**
 * The simulated fleets on which learned and fixed budgets are compared. The parameters were
 * committed before the first result was known, so that results could not influence them.
 * docs/explanation/learned-budgets.md says what was changed afterwards: the rule.
 */

/** One pool: the duration of its boots, how that changes, and how much progress they report. */
export interface PoolParameters {
  name: string;
  /** The median of completing boots at the start. Durations are log-normal. */
  median_seconds: number;
  /**
   * The standard deviation of the logarithm. With 0.3, 1 % of the boots take more than twice the
   * median; with 0.5, 1 % take more than three times the median.
   */
  sigma: number;
  /**
   * The share of completing boots that are slowed by a factor of 1 or more; the added time falls
   * into one part.
   */
  tail_share: number;
  /**
   * The Pareto exponent of that factor; a smaller exponent gives longer delays. The slow part is
   * chosen in proportion to the shares of the parts.
   */
  tail_exponent: number;
  boots_per_day: number;
  /** Change of the median per week, as a factor. */
  drift_per_week: number;
  /**
   * A new image multiplies the median from that week on, and earlier boots are of another make.
   */
  new_image?: { week: number; factor: number };
  /**
   * Shares of a boot's parts. The machine reports progress between parts, so a single part means no
   * report before arrival.
   */
  parts: readonly number[];
}

/** The parts of a boot, for pools with many to no progress reports. */
const parts = {
  many: [0.15, 0.1, 0.15, 0.15, 0.15, 0.1, 0.1, 0.1],
  some: [0.2, 0.3, 0.3, 0.2],
  /**
   * The shares of a measured boot: 42 s until the first report, an image pull of 107 s, and a
   * silent set-up of 270 s.
   */
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
  /** The share of all boots that never arrive; they stop in a random part. */
  stuck_share: 0.02,
  /** The standard deviation of the median's weekly random change, on a logarithmic scale. */
  wander_per_week: 0.05,
  median_bounds: [20, 900],
  /** The standard deviation of a part's share between boots, on a logarithmic scale. */
  parts_sigma: 0.25,
  /** A completing boot takes at most this long; longer draws are repeated. */
  longest_seconds: 7200,
  /** How often a pool's budget is evaluated. */
  evaluations_per_day: 1,
} as const;

/**
 * Fixed budgets as comparable systems use them: one number for every pool, no use of progress
 * reports, and a machine is destroyed at once.
 */
export const fixedBudgets = [600, 720, 900, 1800] as const;

/** The fixed budgets of the curve in the figure. */
export const gridSeconds = [
  60, 75, 90, 120, 150, 180, 240, 300, 360, 420, 480, 540, 600, 720, 900, 1080, 1260, 1500, 1800, 2100, 2400, 3000,
  3600,
] as const;

/**
 * Smaller differences count as even: one false kill per thousand boots that would have completed,
 * and 1 % of the time until stuck boots are found. Results without this allowance are reported too.
 */
export const evenWithin = { false_kills_per_thousand: 1, found_share: 0.01 } as const;

/** The claims; the benchmark exits with 1 if one does not hold. */
export const claims = { times_fewer_false_kills_than_600: 10, dominated_in_more_than_share_of_pools: 0.5 } as const;
