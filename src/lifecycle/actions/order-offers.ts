/**
 * Orders the offered actions: retry comes last after repeated failures, retry-release first after a
 * failed release.
 */
import type { Offer } from './action-table.ts';

/** A machine failed to come up so often that a finding is open. */
export interface RepeatedFailure {
  failures: number;
  /** Every failure had the same rule and code. */
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
  /** Null if the rule knows no code. Findings of earlier versions lack it. */
  code?: unknown;
}

export function repeatedFailureIn(findings: readonly FailureFinding[]): RepeatedFailure | null {
  const found = findings.find(({ kind }) => kind === 'repeat-failure');
  const { failures, newest } = found?.theirs ?? {};
  if (!found?.pool || typeof failures !== 'number' || !Array.isArray(newest)) return null;
  const [first, ...others]: Failure[] = newest;
  const isLikeFirst = ({ by, code }: Failure) => by === first?.by && code === first?.code;
  return { failures, same_way: first?.code !== undefined && others.every(isLikeFirst), pool: found.pool };
}

export const repeatedFailureWords = ({ failures, same_way }: RepeatedFailure): string =>
  `the machine failed to start ${failures} times${same_way ? ' in the same way' : ''}`;

export interface OrderFacts {
  repeated: RepeatedFailure | null;
  release_failed: boolean;
}

/** The most useful offer first. A retry that is likely to fail again says so. */
export function orderOffers<Name extends string>(offers: Offer<Name>[], { repeated, release_failed }: OrderFacts) {
  const place = ({ action }: Offer<Name>) => {
    if (action === 'retry-release' && release_failed) return -1;
    return action === 'retry' && repeated ? 1 : 0;
  };
  return offers
    .map((offer) =>
      offer.action === 'retry' && offer.open && repeated
        ? { ...offer, does: `${offer.does}; ${repeatedFailureWords(repeated)}, so change pool ${repeated.pool} first` }
        : offer,
    )
    .toSorted((one, other) => place(one) - place(other));
}
