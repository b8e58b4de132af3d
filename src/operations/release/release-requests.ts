/**
 * Requests for a release, for a retry of a failed release, and for a forced release. Each changes
 * the rows and queues its operation in one transaction.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { listOpenOperations } from '../../store/operations/open-operations.ts';
import { markCancelling, readOperationRow } from '../../store/operations/operations.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, allocationRow, isHeldByAnother, lockAllocation } from '../../store/rows/allocations.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { handOverRelease } from '../../store/transitions/amend-allocation.ts';
import { renewCleaning } from '../../store/transitions/deadlines.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { type AllocationOperation, type Caller, requireVisibleAllocation } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import {
  allocationForceReleaseKind,
  allocationForceReleasePlan,
  forceReleaseWithinSeconds,
} from './allocation-force-release.ts';
import { allocationReleaseKind, allocationReleasePlan } from './allocation-release.ts';

/** A repeated request returns the operation that runs already. */
function runningOperation(allocation: AllocationRow): AllocationOperation {
  if (!allocation.workflow_id)
    throw new Error(`allocation ${allocation.allocation_id} is releasing without an operation`);
  return { allocation_id: allocation.allocation_id, workflow_id: allocation.workflow_id };
}

export async function releaseIn(
  tx: Transaction,
  services: OperationServices,
  id: string,
  caller: Caller,
  by: Extract<Cause, 'release' | 'release-retry'>,
): Promise<AllocationOperation> {
  const at = now(services.clock);
  const allocation = requireVisibleAllocation(await allocationRow(tx, id), caller);
  if (allocation.status === 'releasing') return runningOperation(allocation);
  // Steps of operations lock the operation first and then the allocation; the reverse order could
  // deadlock.
  const open = await listOpenOperations(tx, allocation.allocation_id, 'for no key update');
  const forced = open.find((operation) => operation.kind === allocationForceReleaseKind);
  if (forced) return { allocation_id: allocation.allocation_id, workflow_id: forced.workflow_id };
  // The machine of a failed allocation may serve another one now. Then nothing is torn down.
  const servesAnother =
    allocation.node_id !== null && (await isHeldByAnother(tx, allocation.node_id, allocation.allocation_id));
  // A transition locks the node before its allocation; the reverse order could deadlock.
  const machine =
    allocation.status === 'release_failed' && allocation.node_id ? await lockNode(tx, allocation.node_id) : undefined;
  const workflow_id = newWorkflowId(services.clock);
  const reason = caller.reason ?? (by === 'release' ? 'a release was requested' : 'the release is retried');
  const [outcome] = await moveAllocations(
    tx,
    [
      {
        allocation_id: allocation.allocation_id,
        to: 'releasing',
        by,
        reason,
        actor: caller.actor,
        correlation_id: caller.correlation_id,
        workflow_id,
        set: { workflow_id, ...(servesAnother && { node_id: null }) },
      },
    ],
    at,
    services.environment,
  );
  if (outcome && !outcome.moved && outcome.because === 'already_there' && outcome.allocation)
    return runningOperation(outcome.allocation);
  if (!outcome?.moved)
    throw new ApiProblem(
      'action_illegal',
      `The allocation is ${outcome?.allocation?.status ?? 'gone'}; it cannot be released.`,
    );
  if (!servesAnother) await renewCleaning(tx, machine, caller, at);
  for (const operation of open) await markCancelling(tx, operation.workflow_id, at, caller.actor);
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: allocationReleaseKind,
      revision: 1,
      allocation_id: allocation.allocation_id,
      node_id: servesAnother ? null : allocation.node_id,
      tenant: allocation.tenant,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      params: {},
      steps: allocationReleasePlan,
    },
    at,
  );
  return { allocation_id: allocation.allocation_id, workflow_id };
}

export function requestRelease(services: OperationServices, id: string, caller: Caller): Promise<AllocationOperation> {
  return services.db.transaction((tx) => releaseIn(tx, services, id, caller, 'release'));
}

/** Retries a failed release. Throws if a forced release runs, because that is not retried. */
export function requestReleaseRetry(
  services: OperationServices,
  id: string,
  caller: Caller,
): Promise<AllocationOperation> {
  return services.db.transaction(async (tx) => {
    const release = await releaseIn(tx, services, id, caller, 'release');
    const operation = await readOperationRow(tx, release.workflow_id);
    if (operation?.kind === allocationForceReleaseKind)
      throw new ApiProblem(
        'action_illegal',
        `Operation ${operation.workflow_id} forces the release now. Wait until that operation has ended; the release cannot be retried before.`,
      );
    return release;
  });
}

/** Cancels the running release and queues the forced one. */
async function forceIn(
  tx: Transaction,
  services: OperationServices,
  id: string,
  caller: Caller,
): Promise<AllocationOperation> {
  const at = now(services.clock);
  const { allocation_id } = requireVisibleAllocation(await allocationRow(tx, id), caller);
  // Steps of operations lock the operation before the allocation; the reverse order could deadlock.
  const open = await listOpenOperations(tx, allocation_id, 'for no key update');
  const forced = open.find((operation) => operation.kind === allocationForceReleaseKind);
  if (forced) return { allocation_id, workflow_id: forced.workflow_id };
  const allocation = requireVisibleAllocation(await lockAllocation(tx, allocation_id), caller);
  if (allocation.status !== 'releasing' && allocation.status !== 'release_failed')
    throw new ApiProblem(
      'action_illegal',
      `The allocation is ${allocation.status}. Only a running or failed release can be forced.`,
    );
  const workflow_id = newWorkflowId(services.clock);
  const reason = `its release is forced: ${caller.reason ?? 'requested'}`;
  if (allocation.status === 'releasing') {
    const until = secondsLater(at, forceReleaseWithinSeconds);
    const deadline_at = allocation.deadline_at && allocation.deadline_at > until ? allocation.deadline_at : until;
    await handOverRelease(tx, allocation, { workflow_id, deadline_at, reason, actor: caller.actor }, at);
  } else {
    const { actor, correlation_id } = caller;
    const outcomes = await moveAllocations(
      tx,
      [
        {
          allocation_id,
          to: 'releasing',
          by: 'release',
          reason,
          actor,
          correlation_id,
          workflow_id,
          set: { workflow_id },
        },
      ],
      at,
      services.environment,
    );
    requireMoved(outcomes);
  }
  for (const operation of open) await markCancelling(tx, operation.workflow_id, at, caller.actor);
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: allocationForceReleaseKind,
      revision: 1,
      allocation_id,
      node_id: allocation.node_id,
      tenant: allocation.tenant,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      params: { reason: caller.reason ?? null },
      steps: allocationForceReleasePlan,
    },
    at,
  );
  return { allocation_id, workflow_id };
}

export const requestForceRelease = (
  services: OperationServices,
  id: string,
  caller: Caller,
): Promise<AllocationOperation> => services.db.transaction((tx) => forceIn(tx, services, id, caller));
