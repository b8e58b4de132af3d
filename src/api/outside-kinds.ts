/** Rows are rebuilt and proofs are found by the kind of a fact, so nobody outside may give one a kind of ours. */
import { ApiProblem } from '../contract/errors.ts';
import { isOwnKind } from '../contract/evidence.ts';

export function refuseOwnKinds(facts: readonly { kind: string }[]): void {
  const errors = facts.flatMap(({ kind }, place) =>
    isOwnKind(kind)
      ? [{ path: `/body/facts/${place}/kind`, message: `${kind} is what the control plane tells itself` }]
      : [],
  );
  if (errors.length > 0)
    throw new ApiProblem('invalid_request', {
      detail: 'A fact from outside cannot pass for one of the control plane; give its kind another noun.',
      errors,
    });
}
