/**
 * Automatic attempts: a pool may let a provision try several instances by itself. The next try is
 * queued in the transaction that ends the last one, so a failed allocation is never left without an
 * operation in between.
 */
import { newWorkflowId } from '../../base/ids.ts';
import { pausingRules } from '../../lifecycle/model/rules.ts';
import { countInstancesSince } from '../../store/agents/instances.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockAllocation } from '../../store/rows/allocations.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { launchHold } from '../../store/supervision/brake.ts';
import { markRetrying } from '../../store/transitions/amend-allocation.ts';
import type { OperationServices } from '../runtime/services.ts';
import { queueProvision } from './provision-plan.ts';

export async function anotherAttempt(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  at: Date,
): Promise<void> {
  const allocation = operation.allocation_id ? await lockAllocation(tx, operation.allocation_id) : undefined;
  if (!allocation?.node_id || allocation.status !== 'failed' || allocation.workflow_id !== operation.workflow_id)
    return;
  const pool = await currentPool(tx, allocation.pool);
  const most = pool?.document.attempts ?? 1;
  if (!pool || pool.document.paused || pool.document.mode === 'observe') return;
  const made = await countInstancesSince(tx, allocation.node_id, allocation.created_at);
  if (made >= most) return;
  // While the brake holds the pool, nothing is launched automatically; a person can still retry.
  if (await launchHold(tx, { name: pool.name, zone: pool.document.zone ?? null }, pausingRules, at)) return;
  const workflow_id = newWorkflowId(services.clock);
  const next_try = `attempt ${made + 1} of ${most}`;
  // No actor: the pool allows it, and no person asked.
  const { correlation_id } = operation;
  const asks = { workflow_id, allocation, correlation_id, actor: null, retry: { reason: next_try } };
  await queueProvision(tx, pool.document, services, asks, at);
  await markRetrying(tx, allocation, { workflow_id, next_try }, at);
}
