/** Changes of allocations that are no change of status; each is told, so that the row can still be rebuilt from its facts. */
import type { WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Verdict } from '../../contract/node.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { writeRows } from './transition-rules.ts';

/** A failed allocation that somebody works on again: whoever follows it follows the new try. The caller holds its lock. */
export async function retryingAllocation(
  tx: Transaction,
  allocation: AllocationRow,
  { workflow_id, reason, actor = null }: { workflow_id: WorkflowId; reason: string; actor?: Actor | null },
  now: Date,
): Promise<void> {
  // A try that ended while it waited for a machine has left its own word there.
  const failed = (allocation.reason ?? 'it failed').replace(/; [^;]* follows$/, '');
  const set = { workflow_id, reason: `${failed}; ${reason} follows` };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: actor ? 'operator' : 'workflow',
      kind: 'allocation.retrying',
      summary: `it is tried again${actor ? '' : ' by itself'}: ${reason}`,
      data: { set: { allocation_id: allocation.allocation_id, ...set } },
      actor,
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id,
    },
  ]);
}

/** A release that another operation goes on with: whoever follows the allocation follows that one. The caller holds its lock. */
export async function releaseGoesOnBy(
  tx: Transaction,
  allocation: AllocationRow,
  by: { workflow_id: WorkflowId; deadline_at: Date; reason: string; actor: Actor | null },
  now: Date,
): Promise<void> {
  const set = { workflow_id: by.workflow_id, deadline_at: by.deadline_at, reason: by.reason };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: by.actor ? 'operator' : 'workflow',
      kind: 'allocation.bound',
      summary: by.reason,
      data: { set: { allocation_id: allocation.allocation_id, ...set } },
      actor: by.actor,
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id: by.workflow_id,
    },
  ]);
}

/** Why its machine ended, found out after it was given up. The caller holds its lock. */
export async function tellAllocationCause(
  tx: Transaction,
  allocation: AllocationRow,
  verdict: Verdict,
  now: Date,
): Promise<void> {
  // Where a new try follows, that is said of it as well.
  const follows = /; [^;]* follows$/.exec(allocation.reason ?? '')?.[0] ?? '';
  const set = { verdict, reason: `${verdict.reason}${follows}` };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'provider',
      kind: 'allocation.explained',
      summary: set.reason,
      data: { set: { allocation_id: allocation.allocation_id, ...set } },
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id: allocation.workflow_id,
    },
  ]);
}
