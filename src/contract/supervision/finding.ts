/**
 * Findings on the wire: disagreements, repeated failures, slower boots, and doubts about identities
 * and tokens, each with both sides and advice for the owner.
 */
import { type Static, Type } from 'typebox';
import {
  type FindingWhat,
  findingCatalogue,
  findingKinds,
  findingStatuses,
} from '../../lifecycle/findings/findings.ts';
import { OwnerLayer } from '../errors/problem.ts';
import { Actor } from '../evidence/evidence.ts';
import { Operation } from '../operation.ts';
import { Id, Name, nullable, OpenObject, pageOf, paging, Reason, strict, Timestamp } from '../primitives.ts';

export const Finding = Type.Object(
  {
    finding_id: Type.String(),
    kind: Type.Enum([...findingKinds]),
    what: Type.Enum(Object.keys(findingCatalogue) as FindingWhat[]),
    owner_layer: OwnerLayer,
    says: Type.String({ description: 'The finding in words.' }),
    ways_out: Type.Array(Type.String(), { description: 'Advice for the owner, in full sentences.' }),
    subject: Type.String({
      description:
        'What the finding is about: a node, an allocation, a generation of a pool, a phase of its boots, or a token.',
    }),
    pool: nullable(Type.String({ description: 'Null for a token without a pool.' })),
    node_id: nullable(Type.String()),
    node_instance_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
    ours: OpenObject,
    theirs: OpenObject,
    status: Type.Enum([...findingStatuses]),
    first_seen_at: Timestamp,
    seen_at: Timestamp,
    passes: Type.Integer(),
    opened_at: nullable(Timestamp),
    closed_at: nullable(Timestamp),
    actor: nullable(Actor),
    reason: nullable(Type.String()),
  },
  { $id: 'Finding' },
);
export type Finding = Static<typeof Finding>;
export const FindingPage = pageOf(Finding, 'FindingPage');

/**
 * A row that differs from its evidence. `ours` holds the differing columns of the row, `theirs`
 * what its evidence says of them. One side is empty if it is missing.
 */
export const RowDifference = Type.Object(
  {
    subject: Type.String({ description: 'The node or the allocation.' }),
    pool: Type.String(),
    ours: OpenObject,
    theirs: OpenObject,
  },
  { $id: 'RowDifference' },
);
export type RowDifference = Static<typeof RowDifference>;

/** A count that differs from its rows. */
export const WrongCount = Type.Object(
  {
    of: Type.String(),
    pool: nullable(Type.String()),
    zone: nullable(Type.String()),
    status: Type.String(),
    counted: Type.Integer(),
    there_are: Type.Integer(),
  },
  { $id: 'WrongCount' },
);
export type WrongCount = Static<typeof WrongCount>;

/** A quarantined node whose machine is proven gone: it should be retired. */
export const UnretiredNode = Type.Object(
  {
    node_id: Type.String(),
    pool: Type.String(),
    status: Type.String(),
    status_since: Timestamp,
    allocation_id: nullable(Type.String({ description: 'The allocation that the node served last.' })),
    proof: Type.Enum(['absent', 'revoked']),
    proven_at: Timestamp,
  },
  { $id: 'UnretiredNode' },
);
export type UnretiredNode = Static<typeof UnretiredNode>;

export const StoreVerified = Type.Object(
  {
    compared: Type.Integer({ description: 'The number of rows on this page that were compared with their evidence.' }),
    untold: Type.Integer({
      description: 'Rows without evidence, because retention dropped it; they cannot be compared.',
    }),
    items: Type.Array(RowDifference),
    unretired: Type.Optional(
      Type.Array(UnretiredNode, {
        description: 'Nodes on this page whose machine is proven gone and that are not retired. A sweep retires them.',
      }),
    ),
    miscounted: Type.Optional(
      Type.Array(WrongCount, {
        description: 'On the last page: counts that differ from the rows. A sweep corrects them.',
      }),
    ),
    next_cursor: nullable(Type.String()),
  },
  { $id: 'StoreVerified' },
);
export const VerifyQuery = Type.Object(paging, strict);

export const FindingQuery = Type.Object(
  {
    kind: Type.Optional(Type.Enum([...findingKinds])),
    status: Type.Optional(Type.Enum([...findingStatuses])),
    pool: Type.Optional(Name),
    node_id: Type.Optional(Id),
    ...paging,
  },
  strict,
);

export const FindingDecision = Type.Object(
  {
    reason: Reason,
    dry_run: Type.Optional(Type.Boolean()),
  },
  { ...strict, $id: 'FindingDecision' },
);

/** `operation` is the teardown that was started, if any. */
export const FindingDecided = Type.Object(
  {
    finding: Finding,
    operation: nullable(Operation),
    dry_run: Type.Boolean(),
    predicts: Type.Object({ says: Type.String() }),
  },
  { $id: 'FindingDecided' },
);
export type FindingDecided = Static<typeof FindingDecided>;
