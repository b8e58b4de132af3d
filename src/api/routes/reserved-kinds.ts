/**
 * Refuses facts from outside whose kind only the control plane may write: rows, proofs and
 * explanations are derived from these kinds.
 */
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
      detail: 'Only the control plane writes facts of this kind. Use another word before the dot.',
      errors,
    });
}
