/**
 * Replays the recorded history of pools under a proposed policy: the request, and the verdicts that
 * would differ.
 */
import { type Static, Type } from 'typebox';
import { differenceKindNames, unknownKindNames } from '../../lifecycle/replay/difference.ts';
import { ProposedPool } from '../pool.ts';
import { Moment, Name, nullable, strict, Timestamp } from '../primitives.ts';

export const ReplayRequest = Type.Object(
  {
    policy: Type.Array(ProposedPool, {
      minItems: 1,
      maxItems: 100,
      description:
        "Pool documents. One without `driver` is merged over the pool's current document; one without `name` applies to every pool.",
    }),
    since: Type.Optional(Moment),
  },
  { ...strict, $id: 'ReplayRequest' },
);
export type ReplayRequest = Static<typeof ReplayRequest>;

const Decision = Type.Object({
  verdict: Type.String({ description: 'A status, or the action of the brake.' }),
  at: nullable(Timestamp),
  reason: Type.String(),
});

export const ReplayDifference = Type.Object(
  {
    kind: Type.Enum(differenceKindNames),
    at: Timestamp,
    pool: Name,
    node_id: Type.String(),
    node_instance_id: Type.String(),
    rule: Type.String(),
    was: Decision,
    would_be: Decision,
    sure: Type.Boolean({ description: 'False if the record does not prove it.' }),
  },
  { $id: 'ReplayDifference' },
);
export type ReplayDifference = Static<typeof ReplayDifference>;

export const ReplayedPool = Type.Object(
  {
    pool: Name,
    boots: Type.Integer(),
    absences: Type.Integer(),
    decisions: Type.Integer({ description: 'The number of boots, machines that became offline, and held verdicts.' }),
    otherwise: Type.Integer({ description: 'How many decisions would differ.' }),
    kinds: Type.Array(Type.Object({ kind: Type.Enum(differenceKindNames), count: Type.Integer() })),
    differences: Type.Array(ReplayDifference, { description: 'The newest ones, newest first.' }),
    untold: Type.Array(
      Type.Object({
        kind: Type.Enum(unknownKindNames),
        says: Type.String(),
        count: nullable(Type.Integer({ description: 'Null if the kind is not about single decisions.' })),
        node_ids: Type.Array(Type.String(), { description: 'Some of the nodes concerned.' }),
      }),
      { description: 'Questions that the record cannot answer.' },
    ),
  },
  { $id: 'ReplayedPool' },
);
export type ReplayedPool = Static<typeof ReplayedPool>;

export const ReplayReply = Type.Object(
  { since: Timestamp, until: Timestamp, pools: Type.Array(ReplayedPool) },
  { $id: 'ReplayReply' },
);
export type ReplayReply = Static<typeof ReplayReply>;
