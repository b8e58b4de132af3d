/**
 * Orders the actions on offer: retry comes last where it failed repeatedly, and retry-release first
 * where a release failed. Pure.
 */
import type { Offer } from './action-table.ts';

/** Bringing a machine up failed so often that a finding is open about it. */
export interface RepeatedFailure {
  failures: number;
  /** Each time by the same rule and with the same code. */
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
  /** Null where the rule knows no code. Findings of earlier versions have none. */
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
  `bringing it up has failed ${failures} times${same_way ? ' in the same way' : ''}`;

export interface OrderFacts {
  repeated: RepeatedFailure | null;
  release_failed: boolean;
}

/** The same offers in order of use. A retry that would fail again says so. */
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
