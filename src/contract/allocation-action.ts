/** Actions on an allocation, on the wire. */
import { type Static, Type } from 'typebox';
import { allocationActionNames } from '../lifecycle/actions/allocation-actions.ts';
import { Allocation, AllocationStatusName } from './allocation.ts';
import { Operation } from './operation.ts';
import { Id, nullable, strict } from './primitives.ts';
import { actionFields, predictionFields } from './supervision/explanation.ts';

export const AllocationActionName = Type.Enum([...allocationActionNames]);

export const OfferedAllocationActions = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        action: AllocationActionName,
        does: Type.String(),
        open: Type.Boolean(),
        why_not: nullable(Type.String()),
      }),
    ),
  },
  { $id: 'OfferedAllocationActions' },
);

export const AllocationActionParams = Type.Object({ id: Id, action: AllocationActionName }, strict);

export const AllocationActionRequest = Type.Object(actionFields, { ...strict, $id: 'AllocationActionRequest' });

/** With `dry_run` the allocation is unchanged, and `predicts` describes the effect. */
export const AllocationActed = Type.Object(
  {
    allocation: Allocation,
    operation: nullable(Operation),
    dry_run: Type.Boolean(),
    predicts: Type.Object({ status: AllocationStatusName, ...predictionFields }),
  },
  { $id: 'AllocationActed' },
);
export type AllocationActed = Static<typeof AllocationActed>;
