/** Allocations on the wire: a tenant's claim on a node. */
import { type Static, Type } from 'typebox';
import { allocationStatusNames } from '../lifecycle/model/states.ts';
import { OwnerLayer } from './errors/problem.ts';
import { budgetSources, Verdict } from './node.ts';
import { Operation } from './operation.ts';
import { Labels, Name, nullable, PositiveSeconds, pageOf, paging, Reason, strict, Timestamp } from './primitives.ts';
import { Progress } from './progress.ts';

export const AllocationStatusName = Type.Enum([...allocationStatusNames]);

export const Allocation = Type.Object(
  {
    allocation_id: Type.String(),
    pool: Type.String(),
    node_id: nullable(Type.String()),
    tenant: Type.String(),
    name: nullable(Type.String()),
    status: AllocationStatusName,
    status_since: Timestamp,
    reason: nullable(Type.String()),
    owner_layer: nullable(OwnerLayer),
    workflow_id: nullable(Type.String()),
    correlation_id: Type.String(),
    progress: nullable(Progress),
    endpoint: nullable(Type.String()),
    deadline_at: nullable(Timestamp),
    budget_seconds: nullable(Type.Number()),
    budget_source: nullable(Type.Enum([...budgetSources])),
    release_tries: Type.Integer({ minimum: 0, description: 'How often the release of this allocation has failed.' }),
    retry_at: Type.Union([Timestamp, Type.Null()], {
      description: 'release_failed: when the release is retried automatically.',
    }),
    verdict: nullable(Verdict),
    labels: Labels,
    created_at: Timestamp,
    active_at: nullable(Timestamp),
    released_at: nullable(Timestamp),
  },
  { $id: 'Allocation' },
);
export type Allocation = Static<typeof Allocation>;
export const AllocationPage = pageOf(Allocation, 'AllocationPage');

export const AllocationCreate = Type.Object(
  {
    pool: Name,
    name: Type.Optional(Name),
    labels: Type.Optional(Labels),
    provision_timeout_seconds: Type.Optional(PositiveSeconds),
  },
  { ...strict, $id: 'AllocationCreate' },
);
export type AllocationCreate = Static<typeof AllocationCreate>;

/** The body of calls that need no other input: an optional reason, which is stored as evidence. */
export const ActionReason = Type.Object({ reason: Type.Optional(Reason) }, { ...strict, $id: 'ActionReason' });

export const AllocationTouched = Type.Object(
  { allocation: Allocation, operation: Operation },
  { $id: 'AllocationTouched' },
);

export const AllocationListQuery = Type.Object(
  {
    pool: Type.Optional(Name),
    status: Type.Optional(AllocationStatusName),
    tenant: Type.Optional(Name),
    label: Type.Optional(Type.String({ maxLength: 320, pattern: '^[^=\\u0000]+=[^\\u0000]*$' })),
    ...paging,
  },
  strict,
);
