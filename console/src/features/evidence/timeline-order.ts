/** Facts arrive in commit order, which may differ from their time by some milliseconds. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';

/** Facts of the same millisecond stay in commit order. */
export const newestFirst = (facts: readonly Evidence[]): Evidence[] =>
  facts.toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
