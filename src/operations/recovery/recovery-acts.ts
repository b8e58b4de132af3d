/** How a bulk recovery acts on one target: as a person would who acts on it alone, citing the recovery. */
import type { WorkflowId } from '../../base/ids.ts';
import { type BulkActionName, isAboutAllocations } from '../../lifecycle/actions/recovery.ts';
import type { TargetRow } from '../../store/operations/recoveries.ts';
import { type Transaction, withinTransaction } from '../../store/pg/database.ts';
import { actOnAllocation } from '../actions/allocation-actions.ts';
import { actOnNode } from '../actions/node-actions.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';

/** In the caller's transaction, so that the act and the record of it are one. Answers the operation that does it, where it is one. */
export async function actOnTarget(
  tx: Transaction,
  services: OperationServices,
  action: BulkActionName,
  { allocation_id, node_id }: Pick<TargetRow, 'allocation_id' | 'node_id'>,
  caller: Caller & { reason: string },
): Promise<WorkflowId | null> {
  const within = { ...services, db: withinTransaction(services.db, tx) };
  const asked = { reason: caller.reason };
  const done = isAboutAllocations(action)
    ? await actOnAllocation(within, allocation_id ?? '', action, asked, caller)
    : await actOnNode(within, node_id ?? '', action, asked, caller);
  return done.workflow_id ?? null;
}
