/** Rows, proofs and explanations are read by the kind of a fact, so kinds that the server writes are refused from outside. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import { isReservedKind } from '../../contract/evidence/evidence-kinds.ts';

export function refuseReservedKinds(facts: readonly { kind: string }[]): void {
  const errors = facts.flatMap(({ kind }, place) =>
    isReservedKind(kind)
      ? [{ path: `/body/facts/${place}/kind`, message: `${kind} is reserved for the control plane` }]
      : [],
  );
  if (errors.length > 0)
    throw new ApiProblem('invalid_request', {
      detail: 'The control plane writes facts of this kind itself. Use another noun.',
      errors,
    });
}
