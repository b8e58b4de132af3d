/**
 * Changes allocations without changing their status. Every change is recorded, so that the row can
 * be rebuilt from its facts.
 */
import type { WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Verdict } from '../../contract/node.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { writeRows } from './transition-rules.ts';

/** Renders why the allocation failed and, if it is retried, the next try. */
const failedReason = (failure: string, next_try: string | null): string =>
  next_try === null ? failure : `${failure}; ${next_try} follows`;

/** Records the retry of a failed allocation by another operation. The caller holds the row lock. */
export async function markRetrying(
  tx: Transaction,
  allocation: AllocationRow,
  { workflow_id, next_try, actor = null }: { workflow_id: WorkflowId; next_try: string; actor?: Actor | null },
  now: Date,
): Promise<void> {
  // The verdict comes first: the row's reason may still announce an earlier try that ended while
  // it waited for a machine.
  const failure = allocation.verdict?.reason ?? allocation.reason ?? 'it failed';
  const set = { workflow_id, reason: failedReason(failure, next_try) };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: actor ? 'operator' : 'workflow',
      kind: 'allocation.retrying',
      summary: `the allocation is retried${actor ? '' : ' automatically'}: ${next_try}`,
      data: { set: { allocation_id: allocation.allocation_id, ...set } },
      actor,
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id,
    },
  ]);
}

/** Hands a release over to another operation. The caller holds the row lock. */
export async function handOverRelease(
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

/** The reason of a manual retry. An automatic retry has its attempt number as reason. */
export const retryByHand = 'another try';

/** The retry that was queued since the allocation failed; null if there is none. */
async function findQueuedTry(tx: Transaction, { workflow_id, status_since }: AllocationRow): Promise<string | null> {
  const [row] = await tx.query<{ actor: Actor | null; reason: string | null }>(
    `select actor, params ->> 'reason' as reason
     from operations
     where workflow_id = $1
       and params -> 'retry' = 'true'
       -- An operation created before the failure is the one that failed, even if it was a retry.
       and created_at >= $2`,
    [workflow_id, status_since],
  );
  return row ? (row.actor === null && row.reason) || retryByHand : null;
}

/** Records a cause that was found after the machine was given up. The caller holds the row lock. */
export async function recordAllocationCause(
  tx: Transaction,
  allocation: AllocationRow,
  verdict: Verdict,
  now: Date,
): Promise<void> {
  const set = { verdict, reason: failedReason(verdict.reason, await findQueuedTry(tx, allocation)) };
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
