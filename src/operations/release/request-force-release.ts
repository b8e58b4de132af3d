/** Asks for the end of a release that does not end by itself. */
import { now, secondsLater } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { openOperationsOf } from '../../store/operations/open-operations.ts';
import { markCancelling } from '../../store/operations/operations.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { allocationRow, lockAllocation } from '../../store/rows/allocations.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { handOverRelease } from '../../store/transitions/amend-allocation.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { type Caller, type Touched, visibleAllocation } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import {
  allocationForceReleaseKind,
  allocationForceReleasePlan,
  forceReleaseWithinSeconds,
} from './allocation-force-release.ts';

/** The release that runs is told to stop, and the allocation follows the forced one from here on, in the caller's transaction. */
async function forceIn(tx: Transaction, services: OperationServices, id: string, caller: Caller): Promise<Touched> {
  const at = now(services.clock);
  const { allocation_id } = visibleAllocation(await allocationRow(tx, id), caller);
  // Operations before the allocation, as their own steps lock them.
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
