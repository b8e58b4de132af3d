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
    older_than_seconds: Type.Optional({ ...Seconds, description: 'Only what has stood there for so long.' }),
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
        description: 'So many go first; the rest follows only if all of them recovered.',
      }),
    ),
    per_minute: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 6000,
        default: recoveryDefaults.per_minute,
        description: 'At most so many are acted on in a minute.',
      }),
    ),
    stop_after_failures: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100_000,
        default: recoveryDefaults.stop_after_failures,
        description: 'After so many failures the rest is left untouched. One canary that fails is enough.',
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
    matched: Type.Integer({ description: 'How many the filter names now.' }),
    eligible: Type.Integer({ description: 'How many of them the action is open to now.' }),
    not_eligible: Type.Array(
      Type.Object({
        why_not: Type.String(),
        count: Type.Integer(),
        first: Type.Array(Type.String()),
      }),
      { description: 'Those that it would be refused to, by the reason; they are passed over, with it on record.' },
    ),
    first: Type.Array(Type.String(), { description: 'The eligible that come first, the canaries among them.' }),
    operation: nullable(Operation),
  },
  { $id: 'Recovery' },
);
export type Recovery = Static<typeof Recovery>;
