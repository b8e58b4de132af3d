/**
 * Requests for a release, a retry of a failed one, or a forced one. Rows and operation change
 * together.
 */
import { now, secondsLater } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { openOperationsOf } from '../../store/operations/open-operations.ts';
import { markCancelling, operationRow } from '../../store/operations/operations.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, allocationRow, isHeldByAnother, lockAllocation } from '../../store/rows/allocations.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { handOverRelease } from '../../store/transitions/amend-allocation.ts';
import { renewCleaning } from '../../store/transitions/deadlines.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { type Caller, type Touched, visibleAllocation } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import {
  allocationForceReleaseKind,
  allocationForceReleasePlan,
  forceReleaseWithinSeconds,
} from './allocation-force-release.ts';
import { allocationReleaseKind, allocationReleasePlan } from './allocation-release.ts';

/** A repeated request returns the operation that runs already. */
function runningRelease(allocation: AllocationRow): Touched {
  if (!allocation.workflow_id) throw new Error(`allocation ${allocation.allocation_id} is releasing by no operation`);
  return { allocation_id: allocation.allocation_id, workflow_id: allocation.workflow_id };
}

export async function releaseIn(
  tx: Transaction,
  services: OperationServices,
  id: string,
  caller: Caller,
  by: Extract<Cause, 'release' | 'release-retry'>,
): Promise<Touched> {
  const at = now(services.clock);
  const before = visibleAllocation(await allocationRow(tx, id), caller);
  if (before.status === 'releasing') return runningRelease(before);
  // Steps of operations lock the operation first and then the allocation. The reverse order would
  // deadlock.
  const open = await openOperationsOf(tx, before.allocation_id, 'for no key update');
  const forced = open.find((operation) => operation.kind === allocationForceReleaseKind);
  if (forced) return { allocation_id: before.allocation_id, workflow_id: forced.workflow_id };
  // The machine of a failed allocation may serve another one by now. Then nothing is torn down.
  const lost = before.node_id !== null && (await isHeldByAnother(tx, before.node_id, before.allocation_id));
  // Lock order: the node before its allocation.
  const machine = before.status === 'release_failed' && before.node_id ? await lockNode(tx, before.node_id) : undefined;
  const workflow_id = newWorkflowId(services.clock);
  const reason = caller.reason ?? (by === 'release' ? 'asked to be released' : 'the release is retried');
  const [outcome] = await moveAllocations(
    tx,
    [
      {
        allocation_id: before.allocation_id,
        to: 'releasing',
        by,
        reason,
        actor: caller.actor,
        correlation_id: caller.correlation_id,
        workflow_id,
        set: { workflow_id, ...(lost && { node_id: null }) },
      },
    ],
    at,
    services.environment,
  );
  if (outcome && !outcome.moved && outcome.because === 'already_there' && outcome.allocation)
    return runningRelease(outcome.allocation);
  if (!outcome?.moved)
    throw new ApiProblem(
      'action_illegal',
      `The allocation is ${outcome?.allocation?.status ?? 'gone'}; it cannot be released.`,
    );
  if (!lost) await renewCleaning(tx, machine, caller, at);
  for (const operation of open) await markCancelling(tx, operation.workflow_id, at, caller.actor);
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: allocationReleaseKind,
      revision: 1,
      allocation_id: before.allocation_id,
      node_id: lost ? null : before.node_id,
      tenant: before.tenant,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      params: {},
      steps: allocationReleasePlan,
    },
    at,
  );
  return { allocation_id: before.allocation_id, workflow_id };
}

export function requestRelease(services: OperationServices, id: string, caller: Caller): Promise<Touched> {
  return services.db.transaction((tx) => releaseIn(tx, services, id, caller, 'release'));
}

/** Retries a failed release. Throws if the release is being forced, since no retry follows then. */
export function requestReleaseRetry(services: OperationServices, id: string, caller: Caller): Promise<Touched> {
  return services.db.transaction(async (tx) => {
    const touched = await releaseIn(tx, services, id, caller, 'release');
    const operation = await operationRow(tx, touched.workflow_id);
    if (operation?.kind === allocationForceReleaseKind)
      throw new ApiProblem(
        'action_illegal',
        `Its release is forced by now, by operation ${operation.workflow_id}; that goes on, and nothing is tried beside it.`,
      );
    return touched;
  });
}

/** Cancels the running release and hands the allocation to the forced one. */
async function forceIn(tx: Transaction, services: OperationServices, id: string, caller: Caller): Promise<Touched> {
  const at = now(services.clock);
  const { allocation_id } = visibleAllocation(await allocationRow(tx, id), caller);
  // Lock order: operations before the allocation.
  const open = await openOperationsOf(tx, allocation_id, 'for no key update');
  const forced = open.find((operation) => operation.kind === allocationForceReleaseKind);
  if (forced) return { allocation_id, workflow_id: forced.workflow_id };
  const allocation = visibleAllocation(await lockAllocation(tx, allocation_id), caller);
  if (allocation.status !== 'releasing' && allocation.status !== 'release_failed')
    throw new ApiProblem(
      'action_illegal',
      `The allocation is ${allocation.status}; only a release that runs or has failed can be forced.`,
    );
  const workflow_id = newWorkflowId(services.clock);
  const reason = `its release is forced: ${caller.reason ?? 'asked for'}`;
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

export const requestForceRelease = (services: OperationServices, id: string, caller: Caller): Promise<Touched> =>
  services.db.transaction((tx) => forceIn(tx, services, id, caller));
