/** Requests by people and rules. Each changes rows and queues its operation in one transaction. */
import { limitConcurrency } from '../base/batching/limit-concurrency.ts';
import { now } from '../base/clock.ts';
import { newAllocationId, newWorkflowId } from '../base/ids.ts';
import type { AllocationCreate } from '../contract/allocation.ts';
import { ApiProblem } from '../contract/errors/errors.ts';
import type { NodeActionName } from '../lifecycle/actions/actions.ts';
import { listOpenOperations } from '../store/operations/open-operations.ts';
import { markCancelling, readOperationRow, requeue } from '../store/operations/operations.ts';
import { type Queryable, StoreUnavailable, type Transaction } from '../store/pg/database.ts';
import { lockAllocation } from '../store/rows/allocations.ts';
import { lockNode } from '../store/rows/nodes.ts';
import { currentPool, type PoolRow } from '../store/rows/pools.ts';
import { createAllocation, moveAllocations } from '../store/transitions/allocation-transition.ts';
import { markRetrying, retryByHand } from '../store/transitions/amend-allocation.ts';
import { renewCleaning } from '../store/transitions/deadlines.ts';
import { nodeDiagnoseKind } from './actions/node-diagnose.ts';
import { nodeProbeKind } from './actions/node-probe.ts';
import { nodeReEnrollKind } from './provision/node-re-enroll.ts';
import { nodeReactivateKind } from './provision/node-reactivate.ts';
import { nodeReimageKind } from './provision/node-reimage.ts';
import { nodeProvisionKind, queueProvision } from './provision/provision-plan.ts';
import { allocationForceReleaseKind } from './release/allocation-force-release.ts';
import { allocationReleaseKind } from './release/allocation-release.ts';
import { nodeRetireKind } from './release/node-retire.ts';
import { releaseIn } from './release/release-requests.ts';
import {
  type AllocationOperation,
  type Caller,
  requireVisibleAllocation,
  requireVisibleOperation,
} from './runtime/caller.ts';
import type { OperationServices } from './runtime/services.ts';

const repeatAction = (action: NodeActionName) =>
  `Request the action \`${action}\` on the node again. It starts from the current state of the machine.`;

const nextSteps: Readonly<Record<string, string>> = {
  [nodeProvisionKind]: 'Retry the allocation instead: a retry launches a new instance.',
  [allocationForceReleaseKind]: 'Force the release of the allocation again: that requests another proof.',
  [nodeRetireKind]: repeatAction('retire'),
  [nodeReimageKind]: repeatAction('reimage'),
  [nodeReEnrollKind]: repeatAction('re-enroll'),
  [nodeReactivateKind]: repeatAction('reactivate'),
  [nodeProbeKind]: repeatAction('probe'),
  [nodeDiagnoseKind]: repeatAction('collect-diagnostics'),
};

/** Says what to do after a failed operation that cannot be retried itself. */
const nextStepFor = (kind: string): string =>
  nextSteps[kind] ?? 'Send the same request again. It starts from the beginning.';

const defaultTenant = 'default';
/**
 * Half of the default connection pool, so that a burst of requests leaves connections for the
 * operations that it queues.
 */
const limitRequests = limitConcurrency(8, (error) => error instanceof StoreUnavailable);

export function requestAllocation(
  services: OperationServices,
  create: AllocationCreate,
  caller: Caller,
): Promise<AllocationOperation> {
  const { db, clock, environment } = services;
  const at = now(clock);
  const request = async (tx: Transaction): Promise<AllocationOperation> => {
    const pool = await currentPool(tx, create.pool, 'for share of pool');
    if (!pool) throw new ApiProblem('pool_not_found', `There is no pool named ${create.pool}.`);
    if (pool.document.paused)
      throw new ApiProblem('pool_paused', `The pool ${create.pool} takes no new allocations while it is paused.`);
    const allocation_id = newAllocationId(clock);
    const workflow_id = newWorkflowId(clock);
    const tenant = caller.visibility.kind === 'fleet' ? defaultTenant : caller.visibility.tenant;
    await createAllocation(
      tx,
      {
        allocation_id,
        pool: pool.name,
        tenant,
        name: create.name ?? null,
        workflow_id,
        correlation_id: caller.correlation_id,
        provision_timeout_seconds: create.provision_timeout_seconds ?? null,
        labels: create.labels ?? {},
      },
      pool.document,
      { reason: `a machine of pool ${pool.name} was requested`, actor: caller.actor },
      at,
      environment,
    );
    const provision = {
      workflow_id,
      allocation: { allocation_id, tenant },
      correlation_id: caller.correlation_id,
      actor: caller.actor,
    };
    await queueProvision(tx, pool.document, services, provision, at);
    return { allocation_id, workflow_id };
  };
  return limitRequests(() => db.transaction(request));
}

/**
 * Returns the pool for a retry; throws if the pool was deleted or is paused. Predictions of a retry
 * call it too.
 */
export async function readRetryPool(db: Queryable, name: string): Promise<PoolRow> {
  const pool = await currentPool(db, name);
  if (!pool) throw new ApiProblem('pool_not_found', `The pool ${name} was deleted.`);
  if (pool.document.paused)
    throw new ApiProblem('pool_paused', `The pool ${name} launches nothing while it is paused.`);
  return pool;
}

/** Retries a failed allocation, which stays `failed` until it gets a machine. */
export function requestRetry(services: OperationServices, id: string, caller: Caller): Promise<AllocationOperation> {
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    // The row lock makes concurrent requests share one retry.
    const allocation = requireVisibleAllocation(await lockAllocation(tx, id), caller);
    if (allocation.status !== 'failed')
      throw new ApiProblem(
        'action_illegal',
        `The allocation is ${allocation.status}; only a failed one can be retried.`,
      );
    const pool = await readRetryPool(tx, allocation.pool);
    // A repeated request returns the open retry. An operation from before the failure may still be
    // open, because it freezes evidence; that is not a retry.
    const open = await listOpenOperations(tx, allocation.allocation_id);
    const retry = open.find((operation) => operation.created_at > allocation.status_since);
    if (retry) return { allocation_id: allocation.allocation_id, workflow_id: retry.workflow_id };
    const workflow_id = newWorkflowId(services.clock);
    const provision = {
      workflow_id,
      allocation,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      retry: { reason: caller.reason ?? null },
    };
    await queueProvision(tx, pool.document, services, provision, at);
    await markRetrying(tx, allocation, { workflow_id, next_try: retryByHand, actor: caller.actor }, at);
    return { allocation_id: allocation.allocation_id, workflow_id };
  });
}

export async function requestCancel(services: OperationServices, id: string, caller: Caller): Promise<void> {
  const operation = await services.db.transaction(async (tx) => {
    const operation = requireVisibleOperation(await readOperationRow(tx, id, 'for update'), caller);
    if (operation.kind === allocationReleaseKind || operation.kind === allocationForceReleaseKind)
      throw new ApiProblem(
        'action_illegal',
        'A release cannot be cancelled, because a half-released machine has no defined state.',
      );
    // Cancelling a provision releases its allocation, because the machine must be proven gone.
    if (operation.allocation_id) {
      if (operation.status !== 'queued' && operation.status !== 'running') throw new ApiProblem('operation_ended');
      await releaseIn(
        tx,
        services,
        operation.allocation_id,
        { ...caller, reason: caller.reason ?? 'its operation was cancelled' },
        'release',
      );
    } else if (!(await markCancelling(tx, id, now(services.clock), caller.actor)))
      throw new ApiProblem('operation_ended');
    return operation;
  });
  await services.cancelRun(operation.workflow_id, operation.attempt);
}

export function requestOperationRetry(services: OperationServices, id: string, caller: Caller): Promise<void> {
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    const operation = requireVisibleOperation(await readOperationRow(tx, id, 'for update'), caller);
    if (operation.status !== 'failed')
      throw new ApiProblem('action_illegal', `The operation is ${operation.status}; only a failed one can be retried.`);
    // A recovery of many machines has neither an allocation nor a node.
    if (!operation.allocation_id && !operation.node_id)
      throw new ApiProblem(
        'action_illegal',
        'Request a new recovery instead. It includes the machines that have not recovered.',
      );
    if (operation.kind !== allocationReleaseKind || !operation.allocation_id)
      throw new ApiProblem('action_illegal', nextStepFor(operation.kind));
    const machine = operation.node_id ? await lockNode(tx, operation.node_id) : undefined;
    const [outcome] = await moveAllocations(
      tx,
      [
        {
          allocation_id: operation.allocation_id,
          to: 'releasing',
          by: 'release',
          from: ['release_failed'],
          reason: caller.reason ?? 'the release is retried',
          actor: caller.actor,
          set: { workflow_id: operation.workflow_id },
        },
      ],
      at,
      services.environment,
    );
    if (!outcome?.moved)
      throw new ApiProblem('action_illegal', `The allocation is ${outcome?.allocation?.status ?? 'gone'} now.`);
    await renewCleaning(tx, machine, caller, at);
    await requeue(tx, id, at, caller.actor);
  });
}
