/** Compares two policies, and checks the claims about learned budgets. Pure. */
import { claims, evenWithin, fixedBudgets } from './parameters.ts';
import { addTally, emptyTally, type Tally } from './policies.ts';
import { fixedName, fullPolicyName, type PoolResult, type Result } from './tally.ts';

/** The two measures that are compared, `false_kills` and `found`, and two others that are shown. */
export interface Measures {
  /** Boots destroyed, per thousand boots that would have completed. */
  false_kills: number;
  /** Boots rescued, per thousand boots that would have completed. */
  rescued: number;
  /** Mean seconds from the start of a stuck boot until it is failed. */
  found: number;
  /** Hours that destroyed machines ran, per thousand boots. */
  burnt: number;
}

export const measuresOf = ({ completing, stuck, ...sums }: Tally): Measures => ({
  false_kills: (sums.false_kills / completing) * 1000,
  rescued: (sums.rescued / completing) * 1000,
  found: sums.found_seconds / stuck,
  burnt: (sums.burnt_seconds / 3600 / (completing + stuck)) * 1000,
});

/**
 * `dominates` means no worse in both measures and better in at least one; `loses` is the reverse.
 * `trades` means better in one measure and worse in the other.
 */
export type Relation = 'dominates' | 'even' | 'trades' | 'loses';

interface Allowance {
  false_kills_per_thousand: number;
  found_share: number;
}
const noAllowance: Allowance = { false_kills_per_thousand: 0, found_share: 0 };

/** −1 if better by more than the allowance, 1 if worse by more, otherwise 0. */
const sign = (difference: number, allowed: number): number =>
  Math.abs(difference) <= allowed ? 0 : Math.sign(difference);

export function relationOf(one: Measures, other: Measures, allowance: Allowance): Relation {
  const signs = [
    sign(one.false_kills - other.false_kills, allowance.false_kills_per_thousand),
    sign(one.found - other.found, allowance.found_share * other.found),
  ];
  const isBetter = signs.includes(-1);
  const isWorse = signs.includes(1);
  if (isBetter && isWorse) return 'trades';
  if (isBetter) return 'dominates';
  return isWorse ? 'loses' : 'even';
}

export interface FixedComparison {
  seconds: number;
  fixed: Measures;
  relation: Relation;
  /** The relation without an allowance. */
  strict: Relation;
}

const measuresNamed = (tallies: Record<string, Tally>, name: string): Measures => {
  const tally = tallies[name];
  if (!tally) throw new Error(`no policy is called ${name}`);
  return measuresOf(tally);
};

/** Compares a policy with each fixed budget, on one pool. */
export function compareWithFixed({ tallies }: Pick<PoolResult, 'tallies'>, name: string): FixedComparison[] {
  const one = measuresNamed(tallies, name);
  return fixedBudgets.map((seconds) => {
    const fixed = measuresNamed(tallies, fixedName(seconds));
    return {
      ...{ seconds, fixed },
      relation: relationOf(one, fixed, evenWithin),
      strict: relationOf(one, fixed, noAllowance),
    };
  });
}

/**
 * Compares a policy with the best fixed budget that could have been chosen for the pool in
 * hindsight.
 */
export interface Frontier {
  /** The smallest fixed budget with no more false kills. */
  as_safe_seconds: number | null;
  /** The largest fixed budget that finds stuck boots no later, and its false kills. */
  as_quick: { seconds: number; false_kills: number } | null;
}

export function frontierOf({ tallies, grid }: PoolResult, name: string): Frontier {
  const { false_kills, found } = measuresNamed(tallies, name);
  const curve = grid.map(({ seconds, tally }) => ({ seconds, false_kills: measuresOf(tally).false_kills }));
  return {
    as_safe_seconds: curve.find((point) => point.false_kills <= false_kills)?.seconds ?? null,
    as_quick: curve.findLast(({ seconds }) => seconds <= found) ?? null,
  };
}

export function fleetTallies({ pools }: Pick<Result, 'pools'>): Record<string, Tally> {
  const sums: Record<string, Tally> = {};
  for (const { tallies } of pools)
    for (const [name, tally] of Object.entries(tallies)) {
      sums[name] ??= emptyTally();
      addTally(sums[name], tally);
    }
  return sums;
}

/** How many times fewer false kills than a fixed budget; infinite if the policy has none. */
export const timesFewer = (tallies: Record<string, Tally>, name: string, seconds: number): number =>
  measuresNamed(tallies, fixedName(seconds)).false_kills / measuresNamed(tallies, name).false_kills;

/**
 * The number of pools in which a policy dominates a fixed budget, with and without the allowance.
 */
export function dominatedPools({ pools }: Result, name: string, seconds: number): { allowed: number; strict: number } {
  const cells = pools.map((pool) => compareWithFixed(pool, name).find((each) => each.seconds === seconds));
  return {
    allowed: cells.filter((cell) => cell?.relation === 'dominates').length,
    strict: cells.filter((cell) => cell?.strict === 'dominates').length,
  };
}

export interface Claim {
  what: string;
  found: string;
  holds: boolean;
}

const firstFixed = fixedBudgets[0];

/** The claims about a policy, with the measured values. */
export function claimsOf(result: Result, name: string = fullPolicyName): Claim[] {
  const minTimes = claims.times_fewer_false_kills_than_600;
  const times = timesFewer(fleetTallies(result), name, firstFixed);
  const poolThreshold = result.pools.length * claims.dominated_in_more_than_share_of_pools;
  return [
    {
      what: `over the whole fleet at least ${minTimes} times fewer false kills than ${fixedName(firstFixed)}`,
      ...{ found: `${times.toFixed(1)} times`, holds: times >= minTimes },
    },
    ...fixedBudgets.map((seconds) => {
      const { allowed, strict } = dominatedPools(result, name, seconds);
      return {
        what: `dominates ${fixedName(seconds)} in most pools`,
        found: `${allowed} of ${result.pools.length}; ${strict} without an allowance`,
        holds: allowed > poolThreshold,
      };
    }),
  ];
}
