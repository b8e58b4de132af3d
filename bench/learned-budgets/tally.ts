/** Runs every policy on every pool over many seeds, and sums the results. */
import { type Boots, drawBoots } from './fleet.ts';
import { fixedBudgets, fleet, gridSeconds, pools } from './parameters.ts';
import { addTally, emptyTally, judge, type Policy, policies, runPolicy, type Tally } from './policies.ts';

/** Applies one deadline to every boot, without progress reports or rescue. */
function runFixed(boots: Boots, seconds: number): Tally {
  const tally = emptyTally();
  for (const duration of boots.durations) judge(tally, duration, seconds, 0);
  return tally;
}

export const fixedName = (seconds: number): string => `fixed ${seconds} s`;
/** The policy that is compared with the fixed ones. */
export const fullPolicyName: string = policies[0].name;

export interface PoolResult {
  pool: string;
  /** By policy name. */
  tallies: Record<string, Tally>;
  /** By fixed budget. */
  grid: { seconds: number; tally: Tally }[];
  /** The budget of the full policy at the end of each day, averaged over seeds. */
  budgets: number[];
}

export interface Result {
  seeds: number;
  pools: PoolResult[];
  /** The tallies of the whole fleet by policy name, one entry per seed. */
  fleets: Record<string, Tally>[];
}

const runners: { name: string; run: (boots: Boots) => Tally & { budgets?: number[] } }[] = [
  ...fixedBudgets.map((seconds) => ({ name: fixedName(seconds), run: (boots: Boots) => runFixed(boots, seconds) })),
  ...policies.map((policy: Policy) => ({ name: policy.name, run: (boots: Boots) => runPolicy(policy, boots) })),
];

const emptyTallies = (): Record<string, Tally> => Object.fromEntries(runners.map(({ name }) => [name, emptyTally()]));
const tallyOf = (tallies: Record<string, Tally>, name: string): Tally => {
  const tally = tallies[name];
  if (!tally) throw new Error(`no policy is called ${name}`);
  return tally;
};

export function measure(seeds: number, eachSeed: (seed: number) => void, firstSeed = 0): Result {
  const fleets = Array.from({ length: seeds }, emptyTallies);
  const results: PoolResult[] = pools.map(({ name }) => ({
    pool: name,
    tallies: emptyTallies(),
    grid: gridSeconds.map((seconds) => ({ seconds, tally: emptyTally() })),
    budgets: new Array<number>(fleet.weeks * 7 * fleet.evaluations_per_day).fill(0),
  }));
  for (const [seed, whole] of fleets.entries()) {
    for (const [place, result] of results.entries()) {
      const pool = pools[place];
      if (!pool) continue;
      const boots = drawBoots(pool, firstSeed + seed);
      for (const { name, run } of runners) {
        const outcome = run(boots);
        addTally(tallyOf(result.tallies, name), outcome);
        addTally(tallyOf(whole, name), outcome);
        if (name === fullPolicyName)
          outcome.budgets?.forEach((seconds, day) => {
            result.budgets[day] = (result.budgets[day] ?? 0) + seconds / seeds;
          });
      }
      for (const { seconds, tally } of result.grid) addTally(tally, runFixed(boots, seconds));
    }
    eachSeed(seed);
  }
  return { seeds, pools: results, fleets };
}
