/** What people and rules may ask for. Each request changes rows and queues its operation in one transaction, or refuses and changes nothing. */
import { now } from '../base/clock.ts';
import {
  type AllocationId,
  type CorrelationId,
  newAllocationId,
  newNodeId,
  newNodeInstanceId,
  newWorkflowId,
  type WorkflowId,
} from '../base/ids.ts';
import type { AllocationCreate } from '../contract/allocation.ts';
import { ApiProblem } from '../contract/errors.ts';
import type { Actor } from '../contract/evidence.ts';
import type { Cause } from '../lifecycle/transitions.ts';
import { type AllocationRow, allocationRow, isHeldByAnother, lockAllocation } from '../store/allocations.ts';
import type { Transaction } from '../store/database.ts';
import { isUniqueViolation } from '../store/database.ts';
import { renewCleaning } from '../store/deadlines.ts';
import { createNode } from '../store/door.ts';
import { createAllocation, moveAllocations } from '../store/door-allocation.ts';
import { createInstance } from '../store/instances.ts';
import { countLiveNodes, lockNode } from '../store/nodes.ts';
import { markCancelling, openOperationsOf, operationRow, queueOperation, requeue } from '../store/operations.ts';
import { currentPool } from '../store/pools.ts';
import { allocationForceReleaseKind } from './allocation-force-release.ts';
import { allocationReleaseKind, allocationReleasePlan } from './allocation-release.ts';
import { queueProvision } from './provision-plan.ts';
import type { OperationServices } from './services.ts';

export interface Asker {
  actor: Actor | null;
  /** Null: for all tenants. */
  tenant: string | null;
  correlation_id: CorrelationId;
  reason?: string;
}

const defaultTenant = 'default';

export interface Touched {
  allocation_id: AllocationId;
  workflow_id: WorkflowId;
}

export function requestAllocation(
  services: OperationServices,
  asked: AllocationCreate,
  asker: Asker,
): Promise<Touched> {
  const { db, clock, environment } = services;
  const at = now(clock);
  return db.transaction(async (tx) => {
    const pool = await currentPool(tx, asked.pool, 'for share of pool');
    if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${asked.pool}.`);
    if (pool.document.paused)
      throw new ApiProblem('pool_paused', `The pool ${asked.pool} takes no new allocations while it is paused.`);
    const allocation_id = newAllocationId(clock);
    const workflow_id = newWorkflowId(clock);
    const tenant = asker.tenant ?? defaultTenant;
    await createAllocation(
      tx,
      {
        allocation_id,
        pool: pool.name,
        tenant,
        name: asked.name ?? null,
        workflow_id,
        correlation_id: asker.correlation_id,
        provision_timeout_seconds: asked.provision_timeout_seconds ?? null,
        labels: asked.labels ?? {},
      },
      pool.document,
      { reason: `asked for a machine of pool ${pool.name}`, actor: asker.actor },
      at,
      environment,
    );
    const asks = {
      workflow_id,
      allocation: { allocation_id, tenant },
      correlation_id: asker.correlation_id,
      actor: asker.actor,
    };
    await queueProvision(tx, pool.document, environment, asks, at);
    return { allocation_id, workflow_id };
  });
}

/** Whose eyes: what a tenant may not see is not there. */
export const visible = (allocation: AllocationRow | undefined, asker: Asker): AllocationRow => {
  if (!allocation || (asker.tenant !== null && allocation.tenant !== asker.tenant))
    throw new ApiProblem('allocation_not_found');
  return allocation;
};

/** Asking again for what is already under way is no mistake: the answer is the operation that does it. */
function underWay(allocation: AllocationRow): Touched {
  if (!allocation.workflow_id) throw new Error(`allocation ${allocation.allocation_id} is releasing by no operation`);
  return { allocation_id: allocation.allocation_id, workflow_id: allocation.workflow_id };
}

export async function releaseIn(
  tx: Transaction,
  services: OperationServices,
  id: string,
  asker: Asker,
  by: Extract<Cause, 'release' | 'release-retry'>,
): Promise<Touched> {
  const at = now(services.clock);
  const before = visible(await allocationRow(tx, id), asker);
  if (before.status === 'releasing') return underWay(before);
  // An operation's own step locks the operation and then the allocation; taken the other way round, the two would wait for each other.
  const open = await openOperationsOf(tx, before.allocation_id, 'for no key update');
  const forced = open.find((operation) => operation.kind === allocationForceReleaseKind);
  if (forced) return { allocation_id: before.allocation_id, workflow_id: forced.workflow_id };
  // The machine a failed allocation had may serve another one by now; it is then nothing of this one's to take down.
  const lost = before.node_id !== null && (await isHeldByAnother(tx, before.node_id, before.allocation_id));
  // The machine before its allocation, as everywhere.
  const machine = before.status === 'release_failed' && before.node_id ? await lockNode(tx, before.node_id) : undefined;
  const workflow_id = newWorkflowId(services.clock);
  const reason = asker.reason ?? (by === 'release' ? 'asked to be released' : 'the release is tried again');
  const [outcome] = await moveAllocations(
    tx,
    [
      {
        allocation_id: before.allocation_id,
        to: 'releasing',
        by,
        reason,
        actor: asker.actor,
        correlation_id: asker.correlation_id,
        workflow_id,
        set: { workflow_id, ...(lost && { node_id: null }) },
      },
    ],
    at,
    services.environment,
  );
  if (outcome && !outcome.moved && outcome.because === 'already_there' && outcome.allocation)
    return underWay(outcome.allocation);
  if (!outcome?.moved)
    throw new ApiProblem(
      'action_illegal',
      `The allocation is ${outcome?.allocation?.status ?? 'gone'}; it cannot be released.`,
    );
  if (!lost) await renewCleaning(tx, machine, asker, at);
  for (const operation of open) await markCancelling(tx, operation.workflow_id, at, asker.actor);
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: allocationReleaseKind,
      revision: 1,
      allocation_id: before.allocation_id,
      node_id: lost ? null : before.node_id,
      tenant: before.tenant,
      correlation_id: asker.correlation_id,
      actor: asker.actor,
      params: {},
      steps: allocationReleasePlan,
    },
    at,
  );
  return { allocation_id: before.allocation_id, workflow_id };
}

export function requestRelease(services: OperationServices, id: string, asker: Asker): Promise<Touched> {
  return services.db.transaction((tx) => releaseIn(tx, services, id, asker, 'release'));
}

/** Another try of a failed allocation; it stays failed until a new instance is on its way. */
export function requestRetry(services: OperationServices, id: string, asker: Asker): Promise<Touched> {
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    // Locked, so that of many who ask at once one makes the try and the others are answered with it.
    const allocation = visible(await lockAllocation(tx, id), asker);
    if (allocation.status !== 'failed')
      throw new ApiProblem(
        'action_illegal',
        `The allocation is ${allocation.status}; only a failed one can be tried again.`,
      );
    const pool = await currentPool(tx, allocation.pool);
    if (!pool) throw new ApiProblem('pool_not_found', `The pool ${allocation.pool} was deleted.`);
    if (pool.document.paused)
      throw new ApiProblem('pool_paused', `The pool ${pool.name} launches nothing while it is paused.`);
    // Asking twice is one try; but the operation that failed, and may still be ending, is not the try that is asked for.
    const open = await openOperationsOf(tx, allocation.allocation_id);
    const asked = open.find((operation) => operation.created_at > allocation.status_since);
    if (asked) return { allocation_id: allocation.allocation_id, workflow_id: asked.workflow_id };
    const workflow_id = newWorkflowId(services.clock);
    const asks = {
      workflow_id,
      allocation,
      correlation_id: asker.correlation_id,
      actor: asker.actor,
      retry: { reason: asker.reason ?? null },
    };
    await queueProvision(tx, pool.document, services.environment, asks, at);
    return { allocation_id: allocation.allocation_id, workflow_id };
  });
}

export async function requestCancel(services: OperationServices, id: string, asker: Asker): Promise<void> {
  const found = await services.db.transaction(async (tx) => {
    const operation = await operationRow(tx, id, 'for update');
    if (!operation || (asker.tenant !== null && operation.tenant !== asker.tenant))
      throw new ApiProblem('operation_not_found');
    if (operation.kind === allocationReleaseKind || operation.kind === allocationForceReleaseKind)
      throw new ApiProblem('action_illegal', 'A release cannot be cancelled: half of it would be limbo.');
    // Cancelling what brings an allocation up is releasing it: the machine must be proven gone, not just left.
    if (operation.allocation_id) {
      if (operation.status !== 'queued' && operation.status !== 'running') throw new ApiProblem('operation_ended');
      await releaseIn(
        tx,
        services,
        operation.allocation_id,
        { ...asker, reason: asker.reason ?? 'its operation was cancelled' },
        'release',
      );
    } else if (!(await markCancelling(tx, id, now(services.clock), asker.actor)))
      throw new ApiProblem('operation_ended');
    return operation;
  });
  await services.cancelRun(found.workflow_id, found.attempt);
}

export function requestOperationRetry(services: OperationServices, id: string, asker: Asker): Promise<void> {
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    const operation = await operationRow(tx, id, 'for update');
    if (!operation || (asker.tenant !== null && operation.tenant !== asker.tenant))
      throw new ApiProblem('operation_not_found');
    if (operation.status !== 'failed')
      throw new ApiProblem(
        'operation_ended',
        `The operation ${operation.status}; only a failed one can be tried again.`,
      );
    // One that is about neither is about many.
    if (!operation.allocation_id && !operation.node_id)
      throw new ApiProblem('action_illegal', 'Ask for a new recovery instead: it takes up whatever has not recovered.');
    if (operation.kind !== allocationReleaseKind || !operation.allocation_id) {
      throw new ApiProblem(
        'action_illegal',
        'Retry the allocation instead: it needs a new instance, not the failed one again.',
      );
    }
    const machine = operation.node_id ? await lockNode(tx, operation.node_id) : undefined;
    const [outcome] = await moveAllocations(
      tx,
      [
        {
          allocation_id: operation.allocation_id,
          to: 'releasing',
          by: 'release',
          from: ['release_failed'],
          reason: asker.reason ?? 'the release is tried again',
          actor: asker.actor,
          set: { workflow_id: operation.workflow_id },
        },
      ],
      at,
      services.environment,
    );
    if (!outcome?.moved)
      throw new ApiProblem('action_illegal', `The allocation is ${outcome?.allocation?.status ?? 'gone'} by now.`);
    await renewCleaning(tx, machine, asker, at);
    await requeue(tx, id, at, asker.actor);
  });
}

/** Expects a machine that somebody else brings; it has an enrolment token to show. */
export async function expectNode(
  services: OperationServices,
  asked: { pool: string; name?: string; provision_timeout_seconds?: number; labels?: Record<string, string> },
  asker: Asker,
): Promise<{ node_id: string; enrollment_token: string }> {
  const { db, clock, environment, installation } = services;
  const at = now(clock);
  try {
    return await db.transaction(async (tx) => {
      const pool = await currentPool(tx, asked.pool, 'for update of pool');
      if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${asked.pool}.`);
      if (services.drivers.get(pool.driver)?.launches)
        throw new ApiProblem(
          'pool_not_external',
          `The driver ${pool.driver} launches the machines of pool ${pool.name} itself.`,
        );
      const limit = pool.document.max_nodes;
      if (limit !== undefined && (await countLiveNodes(tx, pool.name)) >= limit)
        throw new ApiProblem('pool_full', `The pool ${pool.name} holds ${limit} nodes at most.`);
      const node_id = newNodeId(clock);
      const node_instance_id = newNodeInstanceId(clock);
      await createNode(
        tx,
        {
          node_id,
          pool: pool.name,
          pool_generation: pool.generation,
          name: asked.name ?? `${pool.name.slice(0, 54)}-${node_id.slice(-8)}`,
          zone: pool.document.zone ?? null,
          node_instance_id,
          workflow_id: null,
          correlation_id: asker.correlation_id,
          requested_provision_seconds: asked.provision_timeout_seconds ?? null,
          labels: asked.labels ?? {},
        },
        pool.document,
        { by: 'node-create', reason: 'an operator expects this machine', actor: asker.actor },
        at,
        environment,
      );
      const enrollment_token = installation.enrollmentToken({ pool: pool.name, node_id, node_instance_id });
      await createInstance(tx, { node_instance_id, node_id, enrollment_token }, at);
      return { node_id, enrollment_token };
    });
  } catch (error) {
    if (isUniqueViolation(error, 'nodes_live_name'))
      throw new ApiProblem('name_taken', `A live node of pool ${asked.pool} is named ${asked.name}.`);
    throw error;
  }
}
