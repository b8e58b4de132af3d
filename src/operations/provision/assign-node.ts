/** Finds machines for allocations: free ones first, else new ones while the pool has room, else they wait their turn. */
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import { clearReports } from '../../store/agents/clear-reports.ts';
import { createInstance, instanceRow, markUnproven } from '../../store/agents/instances.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { bindOperationsToNodes } from '../../store/operations/operations.ts';
import { type Database, single, type Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, allocationRows, holdersOf } from '../../store/rows/allocations.ts';
import { type FreeNodeHints, lockFreeNodes } from '../../store/rows/free-nodes.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { type PoolRow, poolInTurn } from '../../store/rows/pools.ts';
import { type AllocationMove, moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { bindNodesToOperations } from '../../store/transitions/amend-node.ts';
import { createNode } from '../../store/transitions/node-transition.ts';
import { retireIn } from '../release/node-retire.ts';
import type { OperationServices } from '../runtime/services.ts';
import { replaceInstance } from './new-instance.ts';
import { queueTurn } from './queue-turn.ts';

export type Assignment =
  /** Free: it serves already. */
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

const shortSuffix = (id: string) => id.slice(-8);

async function createNodeFor(
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
      name: `${pool.name.slice(0, 54)}-${shortSuffix(node_id)}`,
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
async function endRescueWindow(
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

interface Ask {
  operation: OperationRow;
  allocation: AllocationRow;
  /** What it failed on, where it is tried again and is not launched anew there. */
  failed?: NodeRow;
}

/** A machine for whoever asked. */
interface Place extends Ask {
  node: NodeRow;
  isFree: boolean;
}

const isRetried = ({ operation, allocation }: Ask) => allocation.status === 'failed' && operation.params.retry === true;

/** What is known without looking for a machine. One that was cut off after it was given one is told of it again. */
function settled({ operation, allocation }: { operation: OperationRow; allocation: AllocationRow | undefined }) {
  if (allocation?.status === 'provisioning' && allocation.node_id)
    return { assigned: true, node_id: allocation.node_id, free: false } as const;
  const isServed = allocation?.status === 'active' && allocation.workflow_id === operation.workflow_id;
  if (isServed && allocation.node_id && allocation.node_id === operation.node_id)
    return { assigned: true, node_id: allocation.node_id, free: true } as const;
  // Only an operation that was asked for as another try may revive what failed; one that waited in the queue lost its turn.
  const isOpen = allocation && (allocation.status === 'requested' || isRetried({ operation, allocation }));
  return isOpen ? undefined : withdrawn(allocation);
}

const byRequestOrder = (one: Ask, other: Ask) =>
  one.allocation.allocation_id < other.allocation.allocation_id ? -1 : 1;

/** What this replica found at its last searches. */
const searched = new WeakMap<Database, FreeNodeHints>();

function heldBefore(db: Database): FreeNodeHints {
  const held: FreeNodeHints = searched.get(db) ?? new Map();
  searched.set(db, held);
  return held;
}

/** Gives machines to those whose turn it is: free ones to the first of them, new ones to the others while there is room. */
async function place(
  tx: Transaction,
  services: OperationServices,
  pool: PoolRow,
  asks: Ask[],
  now: Date,
): Promise<{ places: Place[]; waiting: Map<Ask, string> }> {
  const places: Place[] = [];
  const waiting = new Map<Ask, string>();
  const launches = services.drivers.get(pool.driver)?.launches ?? false;
  const others: Ask[] = [];
  for (const ask of asks) {
    const { node_id } = ask.allocation;
    const failed = isRetried(ask) && node_id ? await lockNode(tx, node_id) : undefined;
    const renewed = failed && launches ? await renewFailed(tx, services, failed, ask.operation, now) : undefined;
    if (renewed) places.push({ ...ask, node: renewed, isFree: false });
    else others.push(failed ? { ...ask, failed } : ask);
  }
  if (others.length === 0) return { places, waiting };

  others.sort(byRequestOrder);
  const turn = await queueTurn(
    tx,
    pool,
    others.map(({ allocation }) => allocation),
    launches,
    now,
  );
  const served = others.filter(({ allocation }) => turn.isServed(allocation));
  const free = served.length > 0 ? await lockFreeNodes(tx, pool.name, served.length, now, heldBefore(services.db)) : [];
  const maxGiven = Math.min(served.length, free.length + turn.room);
  for (const ask of served.slice(0, maxGiven)) {
    const found = free.shift();
    const node = found ?? (await createNodeFor(tx, services, pool, ask.allocation, ask.operation, now));
    places.push({ ...ask, node, isFree: found !== undefined });
  }
  // One that is free may be in somebody's hands just now.
  for (const ask of served.slice(maxGiven)) waiting.set(ask, 'a free machine, which is being looked at just now');
  for (const ask of others) if (!served.includes(ask)) waiting.set(ask, turn.waitsFor(ask.allocation, maxGiven));
  return { places, waiting };
}

async function leaveFailedMachines(
  tx: Transaction,
  services: OperationServices,
  places: Place[],
  now: Date,
): Promise<void> {
  for (const { failed, allocation, operation } of places) {
    if (!failed) continue;
    await endRescueWindow(tx, services, failed, allocation, operation, now);
    if (allocation.active_at && failed.node_instance_id) await markUnproven(tx, failed.node_instance_id, now);
  }
}

async function assignPlaces(tx: Transaction, services: OperationServices, places: Place[], now: Date): Promise<void> {
  const moves = places.map(
    (given): AllocationMove => ({
      allocation_id: given.allocation.allocation_id,
      to: 'provisioning',
      by: isRetried(given) ? 'retry' : 'node-assigned',
      reason: given.isFree ? `node ${given.node.name} was free` : `node ${given.node.name} is being brought up`,
      set: { node_id: given.node.node_id, workflow_id: given.operation.workflow_id },
      node: given.node,
      actor: given.operation.actor,
    }),
  );
  const free = places.filter(({ isFree }) => isFree);
  const ready = free.map(
    ({ allocation: { allocation_id }, node }): AllocationMove => ({
      allocation_id,
      to: 'active',
      by: 'node-ready',
      reason: `node ${node.name} is ready`,
      node,
    }),
  );
  const outcomes = await moveAllocations(tx, [...moves, ...ready], now, services.environment);
  for (const [index, { allocation_id }] of moves.entries()) {
    const moved = outcomes[index];
    if (!moved?.moved) throw new Error(`allocation ${allocation_id} could not be assigned: ${moved?.because}`);
  }
  await clearReports(
    tx,
    free.map(({ node }) => node),
    now,
  );
  await bindNodesToOperations(tx, free, now);
  await bindOperationsToNodes(
    tx,
    places.map(({ operation: { workflow_id }, node }) => ({ workflow_id, node })),
  );
}

/** Finds machines for operations of one pool, all of them locked by their executor. Answers in their order. */
export async function assignNodes(
  tx: Transaction,
  services: OperationServices,
  operations: OperationRow[],
  now: Date,
): Promise<Assignment[]> {
  const ids = operations.flatMap(({ allocation_id }) => allocation_id ?? []);
  const [any] = await allocationRows(tx, ids);
  if (!any) return operations.map(() => withdrawn(undefined));
  const pool = await poolInTurn(tx, any.pool);
  // What is decided on is read when it is the pool's turn.
  const found = new Map((await allocationRows(tx, ids)).map((row) => [row.allocation_id, row]));
  const asked = operations.map((operation) => ({
    operation,
    allocation: operation.allocation_id ? found.get(operation.allocation_id) : undefined,
  }));
  const open = asked.filter((ask): ask is Ask => settled(ask) === undefined);
  if (!pool) {
    const waiting_for = `pool ${any.pool} to be declared again`;
    return asked.map((ask) => settled(ask) ?? { assigned: false, waiting_for });
  }
  const { places, waiting } = await place(tx, services, pool, open, now);
  await leaveFailedMachines(tx, services, places, now);
  await assignPlaces(tx, services, places, now);
  const answers = new Map<OperationRow, Assignment>();
  for (const [{ operation }, waiting_for] of waiting) answers.set(operation, { assigned: false, waiting_for });
  for (const { operation, node, isFree } of places)
    answers.set(operation, { assigned: true, node_id: node.node_id, free: isFree });
  return asked.map((ask) => answers.get(ask.operation) ?? settled(ask) ?? withdrawn(ask.allocation));
}

export async function assignNode(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  now: Date,
): Promise<Assignment> {
  return single(await assignNodes(tx, services, [operation], now));
}
