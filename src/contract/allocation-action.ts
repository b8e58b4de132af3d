/** What may be done about an allocation, on the wire. */
import { type Static, Type } from 'typebox';
import { allocationActionNames } from '../lifecycle/actions/allocation-actions.ts';
import { Allocation, AllocationStatusName } from './allocation.ts';
import { Operation } from './operation.ts';
import { Id, nullable, strict } from './primitives.ts';
import { askedWith, predictionFields } from './supervision/explanation.ts';

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

export const AllocationActionRequest = Type.Object(askedWith, { ...strict, $id: 'AllocationActionRequest' });

/** As for nodes: with `dry_run` the allocation is as it stands, and `predicts` says what would come of it. */
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
