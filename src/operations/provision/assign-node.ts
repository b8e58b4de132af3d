/** Assigns machines to allocations: free ones first, then new ones while the pool has room. */
import { newNodeId, newNodeInstanceId } from '../../base/ids.ts';
import { clearReports } from '../../store/agents/clear-reports.ts';
import { createInstance, instanceRow, markUnproven } from '../../store/agents/instances.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { bindOperationsToNodes } from '../../store/operations/operations.ts';
import { type Database, single, type Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, allocationRows, findHolders } from '../../store/rows/allocations.ts';
import { type FreeNodeHints, lockFreeNodes } from '../../store/rows/free-nodes.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { lockPoolForAssignment, type PoolRow } from '../../store/rows/pools.ts';
import { type AllocationMove, moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { bindNodesToOperations } from '../../store/transitions/amend-node.ts';
import { createNode } from '../../store/transitions/node-transition.ts';
import { retireIn } from '../release/node-retire.ts';
import type { OperationServices } from '../runtime/services.ts';
import { replaceInstance } from './new-instance.ts';
import { readQueueTurn } from './queue-turn.ts';

export type Assignment =
  /** `free`: the machine was ready and unused, so nothing is launched. */
  | { assigned: true; node_id: string; free: boolean }
  | { assigned: false; waiting_for: string }
  /** The allocation was released or failed meanwhile, so there is nothing to assign. */
  | { assigned: false; withdrawn: AllocationRow['status'] | 'gone'; rule: string | null; reason: string | null };

const withdrawnAnswer = (allocation: AllocationRow | undefined): Assignment => ({
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
  const enrollment_token = services.installation.signEnrollmentToken({ pool: pool.name, node_id, node_instance_id });
  await createInstance(tx, { node_instance_id, node_id, enrollment_token }, now);
  return node;
}

/** Gives the failed node a new instance. The former one is already destroyed and proven absent. */
async function replaceFailedInstance(
  tx: Transaction,
  services: OperationServices,
  node: NodeRow,
  operation: OperationRow,
  now: Date,
): Promise<NodeRow | undefined> {
  const former = node.node_instance_id ? await instanceRow(tx, node.node_instance_id) : undefined;
  // An instance whose credential is not revoked may still be running, so it must not be replaced.
  if (node.status !== 'failed' || (former && !former.revoked_at)) return undefined;
  const reasonSuffix = typeof operation.params.reason === 'string' ? `: ${operation.params.reason}` : '';
  const { workflow_id, correlation_id, actor } = operation;
  const newInstance = await replaceInstance(
    tx,
    services,
    node,
    {
      by: 'retry',
      reason: `another try with a new instance${reasonSuffix}`,
      fence_reason: 'another try replaces it',
      actor,
      workflow_id,
      correlation_id,
    },
    now,
  );
  return newInstance?.node;
}

/**
 * Ends the rescue window of a failed machine whose tenant got another machine. Otherwise the failed
 * machine could be rescued, become free without being cleaned, and go to the next tenant.
 */
async function endRescueWindow(
  tx: Transaction,
  services: OperationServices,
  failed: NodeRow,
  { allocation_id }: AllocationRow,
  operation: OperationRow,
  now: Date,
): Promise<void> {
  // If another allocation failed on the same machine later, it may still wait for the machine.
  const holder = (await findHolders(tx, [failed.node_id])).get(failed.node_id);
  if (failed.status !== 'failed' || holder !== allocation_id) return;
  const reason = 'its rescue window ended: its tenant tried again and was given another machine';
  await retireIn(tx, services, failed, { by: 'retire', reason, data: { allocation_id }, actor: operation.actor }, now);
}

interface AssignRequest {
  operation: OperationRow;
  allocation: AllocationRow;
  /** The node that a retried allocation failed on, unless the retry reuses that node. */
  failed?: NodeRow;
}

/** A request and the machine found for it. */
interface Place extends AssignRequest {
  node: NodeRow;
  isFree: boolean;
}

const isRetried = ({ operation, allocation }: AssignRequest) =>
  allocation.status === 'failed' && operation.params.retry === true;

/**
 * Returns the answer if no machine has to be found. An operation that crashed after its assignment
 * gets the same machine again.
 */
function knownAnswer({ operation, allocation }: { operation: OperationRow; allocation: AllocationRow | undefined }) {
  if (allocation?.status === 'provisioning' && allocation.node_id)
    return { assigned: true, node_id: allocation.node_id, free: false } as const;
  const isActive = allocation?.status === 'active' && allocation.workflow_id === operation.workflow_id;
  if (isActive && allocation.node_id && allocation.node_id === operation.node_id)
    return { assigned: true, node_id: allocation.node_id, free: true } as const;
  // A failed allocation gets a machine only for a retry, not if it failed while it was queued.
  const isOpen = allocation && (allocation.status === 'requested' || isRetried({ operation, allocation }));
  return isOpen ? undefined : withdrawnAnswer(allocation);
}

const byRequestOrder = (one: AssignRequest, other: AssignRequest) =>
  one.allocation.allocation_id < other.allocation.allocation_id ? -1 : 1;

/** Where this replica's last searches found free machines. */
const hints = new WeakMap<Database, FreeNodeHints>();

function hintsOf(db: Database): FreeNodeHints {
  const known: FreeNodeHints = hints.get(db) ?? new Map();
  hints.set(db, known);
  return known;
}

/**
 * Finds machines for the allocations whose turn it is: free machines for the first, new machines
 * for the others. The rest wait.
 */
async function findPlaces(
  tx: Transaction,
  services: OperationServices,
  pool: PoolRow,
  requests: AssignRequest[],
  now: Date,
): Promise<{ places: Place[]; waiting: Map<AssignRequest, string> }> {
  const places: Place[] = [];
  const waiting = new Map<AssignRequest, string>();
  const launches = services.drivers.get(pool.driver)?.launches ?? false;
  const others: AssignRequest[] = [];
  for (const request of requests) {
    const { node_id } = request.allocation;
    const failed = isRetried(request) && node_id ? await lockNode(tx, node_id) : undefined;
    const replacedNode =
      failed && launches ? await replaceFailedInstance(tx, services, failed, request.operation, now) : undefined;
    if (replacedNode) places.push({ ...request, node: replacedNode, isFree: false });
    else others.push(failed ? { ...request, failed } : request);
  }
  if (others.length === 0) return { places, waiting };

  others.sort(byRequestOrder);
  const turn = await readQueueTurn(
    tx,
    pool,
    others.map(({ allocation }) => allocation),
    launches,
    now,
  );
  const served = others.filter(({ allocation }) => turn.isServed(allocation));
  const free = served.length > 0 ? await lockFreeNodes(tx, pool.name, served.length, now, hintsOf(services.db)) : [];
  const assignable = Math.min(served.length, free.length + turn.room);
  for (const request of served.slice(0, assignable)) {
    const freeNode = free.shift();
    const node = freeNode ?? (await createNodeFor(tx, services, pool, request.allocation, request.operation, now));
    places.push({ ...request, node, isFree: freeNode !== undefined });
  }
  // Fewer free machines than counted could be locked, because other transactions hold their locks.
  for (const request of served.slice(assignable)) waiting.set(request, 'a free machine that is locked right now');
  for (const request of others)
    if (!served.includes(request)) waiting.set(request, turn.waitsFor(request.allocation, assignable));
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
    (place): AllocationMove => ({
      allocation_id: place.allocation.allocation_id,
      to: 'provisioning',
      by: isRetried(place) ? 'retry' : 'node-assigned',
      reason: place.isFree ? `node ${place.node.name} was free` : `node ${place.node.name} is being brought up`,
      set: { node_id: place.node.node_id, workflow_id: place.operation.workflow_id },
      node: place.node,
      actor: place.operation.actor,
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
    const outcome = outcomes[index];
    if (!outcome?.moved) throw new Error(`allocation ${allocation_id} could not be assigned: ${outcome?.because}`);
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

/**
 * Assigns machines to operations of one pool, and returns the answers in the order of `operations`.
 * The caller has locked the operations as their executor.
 */
export async function assignNodes(
  tx: Transaction,
  services: OperationServices,
  operations: OperationRow[],
  now: Date,
): Promise<Assignment[]> {
  const ids = operations.flatMap(({ allocation_id }) => allocation_id ?? []);
  const [anyAllocation] = await allocationRows(tx, ids);
  if (!anyAllocation) return operations.map(() => withdrawnAnswer(undefined));
  const pool = await lockPoolForAssignment(tx, anyAllocation.pool);
  // Read again: the rows may have changed before the pool was locked.
  const allocations = new Map((await allocationRows(tx, ids)).map((row) => [row.allocation_id, row]));
  const requests = operations.map((operation) => ({
    operation,
    allocation: operation.allocation_id ? allocations.get(operation.allocation_id) : undefined,
  }));
  const openRequests = requests.filter((request): request is AssignRequest => knownAnswer(request) === undefined);
  if (!pool) {
    const waiting_for = `pool ${anyAllocation.pool} to be declared again`;
    return requests.map((request) => knownAnswer(request) ?? { assigned: false, waiting_for });
  }
  const { places, waiting } = await findPlaces(tx, services, pool, openRequests, now);
  await leaveFailedMachines(tx, services, places, now);
  await assignPlaces(tx, services, places, now);
  const answers = new Map<OperationRow, Assignment>();
  for (const [{ operation }, waiting_for] of waiting) answers.set(operation, { assigned: false, waiting_for });
  for (const { operation, node, isFree } of places)
    answers.set(operation, { assigned: true, node_id: node.node_id, free: isFree });
  return requests.map(
    (request) => answers.get(request.operation) ?? knownAnswer(request) ?? withdrawnAnswer(request.allocation),
  );
}

export async function assignNode(
  tx: Transaction,
  services: OperationServices,
  operation: OperationRow,
  now: Date,
): Promise<Assignment> {
  return single(await assignNodes(tx, services, [operation], now));
}
