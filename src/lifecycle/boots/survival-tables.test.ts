/**
 * Checks the estimator against published tables and exact fractions, and that its bands contain the
 * true value as often as they should.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bandedQuantile, estimateSurvival, type TimedBoot } from './survival.ts';

const arrivedAt = (...seconds: number[]): TimedBoot[] =>
  seconds.map((each) => ({ seconds: each, outcome: 'completed' }));
const observedUntil = (...seconds: number[]): TimedBoot[] =>
  seconds.map((each) => ({ seconds: each, outcome: 'timed_out' }));

describe('published tables', () => {
  /** Freireich et al. 1963, remission in weeks under 6-mercaptopurine; Cox and Oakes, table 1.1. */
  const remission = [
    ...arrivedAt(6, 6, 6, 7, 10, 13, 16, 22, 23),
    ...observedUntil(6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35),
  ];
  it('give the same counts at risk, shares, errors and log-log bands for 6-MP, to their printed digits', () => {
    const printed = [
      [6, 21, 3, 0.8571, 0.0764, 0.6197, 0.9516],
      [7, 17, 1, 0.8067, 0.0869, 0.5631, 0.9228],
      [10, 15, 1, 0.7529, 0.0963, 0.5032, 0.8894],
      [13, 12, 1, 0.6902, 0.1068, 0.4316, 0.8491],
      [16, 11, 1, 0.6275, 0.1141, 0.3675, 0.8049],
      [22, 7, 1, 0.5378, 0.1282, 0.2678, 0.7468],
      [23, 6, 1, 0.4482, 0.1346, 0.1881, 0.6801],
    ];
    const digits = (value: number) => Number(value.toFixed(4));
    const steps = estimateSurvival(remission).map(({ seconds, at_risk, arrivals, share, std_error, low, high }) => [
      ...[seconds, at_risk, arrivals],
      ...[share, std_error, low, high].map(digits),
    ]);
    expect(steps).toEqual(printed);
  });
  it('give the same 6-MP median of 23 weeks, which has no upper bound', () => {
    expect(bandedQuantile(estimateSurvival(remission), 0.5)).toEqual({ seconds: 23, low: 13, high: null });
  });
  /** The other arm of the same trial. Without censoring, the estimate is the plain share. */
  it('give the same plain shares for the placebo, and a median of 8 weeks between 4 and 11', () => {
    const placebo = arrivedAt(1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23);
    const steps = estimateSurvival(placebo);
    expect(steps.map(({ seconds, share }) => [seconds, Math.round(share * 21)])).toEqual([
      [1, 19],
      [2, 17],
      [3, 16],
      [4, 14],
      [5, 12],
      [8, 8],
      [11, 6],
      [12, 4],
      [15, 3],
      [17, 2],
      [22, 1],
      [23, 0],
    ]);
    expect(bandedQuantile(steps, 0.5)).toEqual({ seconds: 8, low: 4, high: 11 });
  });
});

it('gives the 99th percentile of six boots no upper bound', () => {
  const steps = estimateSurvival(arrivedAt(2.7, 2.8, 3, 3.1, 3.3, 3.4));
  expect(bandedQuantile(steps, 0.99)).toEqual({ seconds: 3.4, low: 3.3, high: null });
  expect(steps.at(-1)).toMatchObject({ share: 0, low: 0, high: steps.at(-2)?.high });
});

/** The same estimate in exact integer fractions. */
function exactShares(boots: readonly TimedBoot[]): number[] {
  const moments = [...new Set(boots.map(({ seconds }) => seconds))].sort((a, b) => a - b);
  let [over, under] = [1n, 1n];
  const scale = 10n ** 30n;
  return moments.flatMap((moment) => {
    const risk = BigInt(boots.filter(({ seconds }) => seconds >= moment).length);
    const arrived = BigInt(
      boots.filter(({ seconds, outcome }) => seconds === moment && outcome === 'completed').length,
    );
    if (arrived === 0n) return [];
    over *= risk - arrived;
    under *= risk;
    return [Number((over * scale) / under) / 1e30];
  });
}

it('agrees with exact fractions to 1e-12', () => {
  const outcome = fc.constantFrom('completed' as const, 'timed_out' as const, 'cancelled' as const);
  const boots = fc.array(fc.record({ seconds: fc.integer({ min: 1, max: 30 }), outcome }), { maxLength: 60 });
  fc.assert(
    fc.property(boots, (some) => {
      const shares = estimateSurvival(some).map(({ share }) => share);
      const exact = exactShares(some);
      expect(shares.length).toBe(exact.length);
      for (const [place, share] of shares.entries()) expect(Math.abs(share - (exact[place] ?? 2))).toBeLessThan(1e-12);
    }),
    { numRuns: 500 },
  );
});

/** Deterministic, so that a failure can be reproduced. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Uses enough boots that hardly any fleet has fewer than ten at risk at the last time. Leaving out
 * many such fleets would bias the result.
 */
it('95 % bands contain the truth in 92 to 98 % of fleets with at least ten boots at risk', () => {
  const random = randomFrom(20_261);
  const exponential = (mean: number) => -mean * Math.log(1 - random());
  const [fleets, boots, mean, watched] = [2000, 200, 100, 250];
  const times = [25, 50, 100, 150];
  const tallies = times.map(() => ({ checked: 0, inside: 0 }));
  for (let fleet = 0; fleet < fleets; fleet++) {
    const sample = Array.from({ length: boots }, (): TimedBoot => {
      const [boot, lost] = [exponential(mean), exponential(watched)];
      return boot <= lost ? { seconds: boot, outcome: 'completed' } : { seconds: lost, outcome: 'cancelled' };
    });
    const steps = estimateSurvival(sample);
    for (const [place, moment] of times.entries()) {
      const tally = tallies[place];
      const atRisk = sample.filter(({ seconds }) => seconds > moment).length;
      const step = steps.findLast(({ seconds }) => seconds <= moment);
      if (!tally || !step || atRisk < 10) continue;
      const truth = Math.exp(-moment / mean);
      tally.checked++;
      if (step.low <= truth && truth <= step.high) tally.inside++;
    }
  }
  for (const [place, { checked, inside }] of tallies.entries()) {
    const share = inside / checked;
    console.log(`at ${times[place]} s: ${(100 * share).toFixed(1)} % of ${checked}`);
    expect(share).toBeGreaterThanOrEqual(0.92);
    expect(share).toBeLessThanOrEqual(0.98);
  }
});
