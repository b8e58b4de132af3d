/** Bulk recovery: one action on everything a filter matches, canary first, at a limited rate. */
import { type Static, Type } from 'typebox';
import { nodeActionNames } from '../../lifecycle/actions/actions.ts';
import { recoverableStatuses, recoveryDefaults } from '../../lifecycle/actions/recovery.ts';
import { Operation } from '../operation.ts';
import { Labels, Name, nullable, Reason, Seconds, strict } from '../primitives.ts';

/** All given fields must match. */
export const RecoveryFilter = Type.Object(
  {
    status: Type.Optional(Type.Enum([...recoverableStatuses])),
    pool: Type.Optional(Name),
    zone: Type.Optional(Name),
    labels: Type.Optional(Labels),
    older_than_seconds: Type.Optional({
      ...Seconds,
      description: 'Only items that have had this status for at least this long.',
    }),
  },
  { ...strict, $id: 'RecoveryFilter' },
);
export type RecoveryFilter = Static<typeof RecoveryFilter>;

export const RecoveryRequest = Type.Object(
  {
    action: Type.Enum([...nodeActionNames]),
    filter: RecoveryFilter,
    reason: Reason,
    canary: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        default: recoveryDefaults.canary,
        description: 'How many targets go first. The others follow only if all of these recover.',
      }),
    ),
    per_minute: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 6000,
        default: recoveryDefaults.per_minute,
        description: 'The largest number of targets per minute.',
      }),
    ),
    stop_after_failures: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100_000,
        default: recoveryDefaults.stop_after_failures,
        description: 'The recovery stops after this many failures, and after one failed canary.',
      }),
    ),
    dry_run: Type.Optional(Type.Boolean()),
  },
  { ...strict, $id: 'RecoveryRequest' },
);
export type RecoveryRequest = Static<typeof RecoveryRequest>;

export const Recovery = Type.Object(
  {
    dry_run: Type.Boolean(),
    matched: Type.Integer({ description: 'How many items the filter matches now.' }),
    eligible: Type.Integer({ description: 'For how many of them the action is available now.' }),
    not_eligible: Type.Array(
      Type.Object({
        why_not: Type.String(),
        count: Type.Integer(),
        first: Type.Array(Type.String()),
      }),
      {
        description:
          'Items for which the action is not available, by reason. The recovery skips them and records the reason.',
      },
    ),
    first: Type.Array(Type.String(), { description: 'The eligible items that come first, including the canaries.' }),
    operation: nullable(Operation),
  },
  { $id: 'Recovery' },
);
export type Recovery = Static<typeof Recovery>;
