/**
 * Residue on the wire: resources at a provider without a live owner, with their last check and how
 * they were settled.
 */
import { type Static, Type } from 'typebox';
import { residueReasons, residueStatuses } from '../../lifecycle/findings/residue.ts';
import { Actor } from '../evidence/evidence.ts';
import { Operation } from '../operation.ts';
import { Name, nullable, OpenObject, pageOf, paging, Reason, strict, Timestamp } from '../primitives.ts';

export const Residue = Type.Object(
  {
    residue_id: Type.String(),
    driver: Type.String(),
    pool: nullable(Type.String()),
    host: nullable(Type.String({ description: 'The only host that can see the resource, if there is one.' })),
    kind: Type.String(),
    resource: Type.String({ description: "The provider's own name for the resource." }),
    node_id: nullable(Type.String()),
    node_instance_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    workflow_id: nullable(Type.String({ description: 'The operation that last worked on the resource.' })),
    why: Type.Enum([...residueReasons]),
    reason: Type.String(),
    forced_by: nullable(Actor),
    status: Type.Enum([...residueStatuses]),
    since: Timestamp,
    seen_at: nullable(Timestamp),
    verified_at: nullable(Timestamp),
    seen: nullable(Type.String({ description: 'The result of the last check, in words.' })),
    cost_per_hour: nullable(Type.Number()),
    settled_at: nullable(Timestamp),
    settled_by: nullable(Actor),
    settled_reason: nullable(Type.String()),
    proof: nullable(OpenObject),
  },
  { $id: 'Residue' },
);
export type Residue = Static<typeof Residue>;
export const ResiduePage = pageOf(Residue, 'ResiduePage');

export const ResidueListQuery = Type.Object(
  { status: Type.Optional(Type.Enum([...residueStatuses])), pool: Type.Optional(Name), ...paging },
  strict,
);

export const ResidueRequest = Type.Object(
  { reason: Reason, dry_run: Type.Optional(Type.Boolean()) },
  { ...strict, $id: 'ResidueRequest' },
);

export const ResidueActed = Type.Object(
  {
    residue: Residue,
    operation: nullable(Operation),
    dry_run: Type.Boolean(),
    predicts: Type.Object({ says: Type.String() }),
  },
  { $id: 'ResidueActed' },
);
export type ResidueActed = Static<typeof ResidueActed>;
