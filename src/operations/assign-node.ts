/** Finds a machine for an allocation: a free one first, else a new one while the pool has room, else it waits its turn. */
import { newNodeId, newNodeInstanceId } from '../base/ids.ts';
import { type AllocationRow, allocationRow, holdersOf } from '../store/allocations.ts';
import { bindNodeToOperation } from '../store/amend-node.ts';
import type { Transaction } from '../store/database.ts';
import { createNode } from '../store/door.ts';
import { moveAllocations } from '../store/door-allocation.ts';
import { createInstance, instanceRow, leaveUnproven } from '../store/instances.ts';
import { lockFreeNode, lockNode, type NodeRow } from '../store/nodes.ts';
import { bindOperationToNode, type OperationRow } from '../store/operations.ts';
import { currentPool, type PoolRow } from '../store/pools.ts';
import { replaceInstance } from './new-instance.ts';
import { retireIn } from './node-retire.ts';
import { mayMakeOne, whatIsMissing } from './queue-turn.ts';
import type { OperationServices } from './services.ts';

export type Assignment =
  | { assigned: true; node_id: string; free: boolean }
  | { assigned: false; waiting_for: string }
  /** The allocation was released or failed meanwhile; there is nothing to assign to. */
  | { assigned: false; withdrawn: AllocationRow['status'] | 'gone'; rule: string | null; reason: string | null };

const withdrawn = (allocation: AllocationRow | undefined): Assignment => ({
  assigned: false,
  withdrawn: allocation?.status ?? 'gone',
  rule: allocation?.verdict?.rule ?? null,
  reason: allocation?.reason ?? null,
});

const readablySuffixed = (id: string) => id.slice(-8);

async function createFor(
  tx: Transaction,
  services: OperationServices,
  pool: PoolRow,
  allocation: AllocationRow,
  operation: OperationRow,
  now: Date,
): Promise<NodeRow> {
  const node_id = newNodeId(services.clock);
  const node_instance_id = newNodeInstanceId(services.clock);
  const node = await createNode(
    tx,
    {
      node_id,
      pool: pool.name,
      pool_generation: pool.generation,
      name: `${pool.name.slice(0, 54)}-${readablySuffixed(node_id)}`,
      zone: pool.document.zone ?? null,
      node_instance_id,
      workflow_id: operation.workflow_id,
      correlation_id: operation.correlation_id,
      requested_provision_seconds: allocation.provision_timeout_seconds,
      labels: {},
    },
    pool.document,
    { by: 'node-provision', reason: 'a new machine for an allocation', allocation_id: allocation.allocation_id },
    now,
    services.environment,
  );
  const enrollment_token = services.installation.enrollmentToken({ pool: pool.name, node_id, node_instance_id });
  await createInstance(tx, { node_instance_id, node_id, enrollment_token }, now);
  return node;
}

/** Another try on the failed node: its former instance is already destroyed and proven absent. */
async function renewFailed(
  tx: Transaction,
  services: OperationServices,
  node: NodeRow,
  operation: OperationRow,
  now: Date,
): Promise<NodeRow | undefined> {
  const former = node.node_instance_id ? await instanceRow(tx, node.node_instance_id) : undefined;
  // Only an instance that was cut off before it was proven gone may be replaced; any other one may still be running.
  if (node.status !== 'failed' || (former && !former.revoked_at)) return undefined;
  const why = typeof operation.params.reason === 'string' ? `: ${operation.params.reason}` : '';
  const { workflow_id, correlation_id, actor } = operation;
  const replaced = await replaceInstance(
    tx,
    services,
    node,
    {
      by: 'retry',
      reason: `another try with a new instance${why}`,
      fenced_because: 'another try replaces it',
      actor,
      workflow_id,
      correlation_id,
    },
    now,
  );
  return replaced?.node;
}

/**
 * Whoever tries again and is given another machine is done with the one that failed: its rescue window ends at once. Were it
 * still to come back, it would be free with nobody to bring back, and its next tenant would get it as the last one left it.
 */
async function endWindow(
  tx: Transaction,
  services: OperationServices,
  failed: NodeRow,
  { allocation_id }: AllocationRow,
  operation: OperationRow,
  now: Date,
): Promise<void> {
  // Another tenant may have failed on the same machine since, and still waits for it.
  const holder = (await holdersOf(tx, [failed.node_id])).get(failed.node_id);
  if (failed.status !== 'failed' || holder !== allocation_id) return;
  const reason = 'its rescue window ended: its tenant tried again and was given another machine';
  await retireIn(tx, services, failed, { by: 'retire', reason, data: { allocation_id }, actor: operation.actor }, now);
}

export async function assignNode(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  now: Date,
): Promise<Assignment> {
  const asked = operation.allocation_id ? await allocationRow(tx, operation.allocation_id) : undefined;
  if (!asked) return withdrawn(asked);
  // The pool's row serialises the count against max_nodes; what is decided on is read behind it.
  const pool = await currentPool(tx, asked.pool, 'for update of pool');
  const before = (await allocationRow(tx, asked.allocation_id)) ?? asked;
  // Only an operation that was asked for as another try may revive what failed; one that waited in the queue lost its turn.
  const retrying = before.status === 'failed' && operation.params.retry === true;
  if (before.status === 'provisioning' && before.node_id)
    return { assigned: true, node_id: before.node_id, free: false };
  if (before.status !== 'requested' && !retrying) return withdrawn(before);
  if (!pool) return { assigned: false, waiting_for: `pool ${before.pool} to be declared again` };
  const launches = services.drivers.get(pool.driver)?.launches ?? false;

  const failed = retrying && before.node_id ? await lockNode(tx, before.node_id) : undefined;
  const renewed = failed && launches ? await renewFailed(tx, services, failed, operation, now) : undefined;
  const waiting = renewed ? undefined : await whatIsMissing(tx, pool, before, launches, now);
  if (waiting) return { assigned: false, waiting_for: waiting };
  const free = renewed ? undefined : await lockFreeNode(tx, pool.name);
  if (!renewed && !free && !(await mayMakeOne(tx, pool, launches, now)))
    return { assigned: false, waiting_for: 'a free machine, which is being looked at just now' };
  const node = renewed ?? free ?? (await createFor(tx, services, pool, before, operation, now));
  const isFree = node === free;
  if (failed && !renewed) {
    await endWindow(tx, services, failed, before, operation, now);
    if (before.active_at && failed.node_instance_id) await leaveUnproven(tx, failed.node_instance_id, now);
  }
  const [moved] = await moveAllocations(
    tx,
    [
      {
        allocation_id: before.allocation_id,
        to: 'provisioning',
        by: retrying ? 'retry' : 'node-assigned',
        reason: isFree ? `node ${node.name} was free` : `node ${node.name} is being brought up`,
        set: { node_id: node.node_id, workflow_id: operation.workflow_id },
        node,
        actor: operation.actor,
      },
    ],
    now,
    services.environment,
  );
  if (!moved?.moved) throw new Error(`allocation ${before.allocation_id} could not be assigned: ${moved?.because}`);
  if (isFree) {
    await moveAllocations(
      tx,
      [
        {
          allocation_id: before.allocation_id,
          to: 'active',
          by: 'node-ready',
          reason: `node ${node.name} is ready`,
          node,
        },
      ],
      now,
      services.environment,
    );
    await bindNodeToOperation(tx, node, operation, now);
  }
  await bindOperationToNode(tx, operation.workflow_id, node);
  return { assigned: true, node_id: node.node_id, free: isFree };
}
