/**
 * Orders the offered actions: retry comes last after repeated failures, retry-release first after a
 * failed release.
 */
import type { Offer } from './action-table.ts';

/** The open finding that a machine repeatedly failed to come up. */
export interface RepeatedFailure {
  failures: number;
  /** Whether every failure had the same rule and code. */
  same_way: boolean;
  pool: string;
}

interface FailureFinding {
  kind: string;
  pool: string | null;
  theirs: Record<string, unknown>;
}

interface Failure {
  by?: unknown;
  /** Null if the rule has no code. Undefined in findings of earlier versions. */
  code?: unknown;
}

export function findRepeatedFailure(findings: readonly FailureFinding[]): RepeatedFailure | null {
  const finding = findings.find(({ kind }) => kind === 'repeat-failure');
  const { failures, newest } = finding?.theirs ?? {};
  if (!finding?.pool || typeof failures !== 'number' || !Array.isArray(newest)) return null;
  const [first, ...others]: Failure[] = newest;
  const isLikeFirst = ({ by, code }: Failure) => by === first?.by && code === first?.code;
  return { failures, same_way: first?.code !== undefined && others.every(isLikeFirst), pool: finding.pool };
}

export const repeatedFailureWords = ({ failures, same_way }: RepeatedFailure): string =>
  `the machine failed to start ${failures} times${same_way ? ' in the same way' : ''}`;

export interface OrderFacts {
  repeated: RepeatedFailure | null;
  release_failed: boolean;
}

/**
 * Sorts the most useful offer first, and adds a warning to a retry that is likely to fail again.
 */
export function orderOffers<Name extends string>(offers: Offer<Name>[], { repeated, release_failed }: OrderFacts) {
  const rank = ({ action }: Offer<Name>) => {
    if (action === 'retry-release' && release_failed) return -1;
    return action === 'retry' && repeated ? 1 : 0;
  };
  return offers
    .map((offer) =>
      offer.action === 'retry' && offer.open && repeated
        ? { ...offer, does: `${offer.does}; ${repeatedFailureWords(repeated)}, so change pool ${repeated.pool} first` }
        : offer,
    )
    .toSorted((one, other) => rank(one) - rank(other));
}
