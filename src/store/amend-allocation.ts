/** Changes of allocations that are no change of status; each is told, so that the row can still be rebuilt from its facts. */
import type { WorkflowId } from '../base/ids.ts';
import type { AllocationRow } from './allocations.ts';
import type { Transaction } from './database.ts';
import { writeRows } from './door-rules.ts';
import { recordEvidence } from './evidence.ts';

/** A failed allocation that somebody works on again: whoever follows it follows the new try. The caller holds its lock. */
export async function retryingAllocation(
  tx: Transaction,
  allocation: AllocationRow,
  { workflow_id, reason }: { workflow_id: WorkflowId; reason: string },
  now: Date,
): Promise<void> {
  const set = { workflow_id, reason: `${allocation.reason}; ${reason} follows` };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'workflow',
      kind: 'allocation.retrying',
      summary: `it is tried again by itself: ${reason}`,
      data: { set: { allocation_id: allocation.allocation_id, ...set } },
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id,
    },
  ]);
}
