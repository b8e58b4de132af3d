/**
 * Wakes operations when evidence arrives that they may be waiting for, so that they poll rarely.
 */
import type { WorkflowId } from '../../base/ids.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Engine } from '../../engine/engine.ts';
import { findRunningOperations } from '../../store/operations/executions.ts';
import type { Queryable } from '../../store/pg/database.ts';

/**
 * Operations wait for task results, status changes of nodes, ended operations and withdrawn
 * allocations. Each wake costs a recorded step, so no other evidence wakes them.
 */
const awaited: Record<string, readonly string[]> = {
  task: ['succeeded', 'failed', 'requeued'],
  node: ['starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning', 'quarantined', 'retired'],
  operation: ['succeeded', 'failed', 'cancelled'],
  allocation: ['releasing', 'failed'],
};

function isAwaited({ kind }: Evidence): boolean {
  const [subject = '', event = ''] = kind.split('.');
  return awaited[subject]?.includes(event) ?? false;
}

/** Evidence that a machine or a place in a pool became available. */
const capacityKinds = ['node.ready', 'node.retired', 'pool.declared', 'brake.resumed', 'brake.ended'];
/** An allocation that leaves the queue without a machine lets the next one advance. */
const dequeueKinds = ['allocation.releasing', 'allocation.failed'];

const mayServeQueue = (fact: Evidence) =>
  capacityKinds.includes(fact.kind) || (dequeueKinds.includes(fact.kind) && !fact.node_id);

export function createOperationWaker(
  db: Queryable,
  engine: Engine,
  replica_id: string,
  onError: (error: unknown) => void,
): (fact: Evidence) => void {
  const waking = new Set<string>();
  const wake = async (key: string, find: () => Promise<{ workflow_id: WorkflowId; attempt: number }[]>) => {
    // Facts that arrive together need one wake, after the last of them.
    if (waking.has(key)) return;
    waking.add(key);
    await Promise.resolve();
    waking.delete(key);
    try {
      for (const { workflow_id, attempt } of await find()) await engine.wake(workflow_id, attempt);
    } catch (error) {
      onError(error);
    }
  };
  return (fact) => {
    if (mayServeQueue(fact)) void wake('waiting', () => findRunningOperations(db, replica_id, 'waiting'));
    if (isAwaited(fact) && (fact.node_id || fact.allocation_id)) {
      const subject = { node_id: fact.node_id, allocation_id: fact.allocation_id };
      void wake(`${fact.node_id} ${fact.allocation_id}`, () => findRunningOperations(db, replica_id, subject));
    }
  };
}
