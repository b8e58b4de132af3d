/**
 * Performs actions on allocations, also on those without a machine.
 * lifecycle/actions/allocation-actions.ts decides when an action is available.
 */
import { now, secondsLater } from '../../base/clock.ts';
import type { KnownIds, WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { NodeActionName } from '../../lifecycle/actions/actions.ts';
import {
  type AllocationActionName,
  allocationActions,
  whyNotOnAllocation,
} from '../../lifecycle/actions/allocation-actions.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { pairedWith } from '../../lifecycle/model/transitions.ts';
import { withinTransaction } from '../../store/pg/database.ts';
import { type AllocationRow, allocationRow } from '../../store/rows/allocations.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { releaseEffect } from '../release/release-policy.ts';
import { requestForceRelease, requestRelease, requestReleaseRetry } from '../release/release-requests.ts';
import { readRetryPool, requestRetry } from '../requests.ts';
import { type Caller, requireVisibleAllocation } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type ActionRequest, type AllocationActionContext, type Prediction, recordAction } from './action.ts';
import { readAllocationSubject } from './action-subjects.ts';
import { extendAllocation, predictExtension } from './extend-deadline.ts';
import { actOnNode } from './node-actions.ts';

type AllocationPrediction = Prediction<AllocationStatus>;

interface AllocationAction {
  predict(context: AllocationActionContext): AllocationPrediction | Promise<AllocationPrediction>;
  act(context: AllocationActionContext, prediction: AllocationPrediction): Promise<WorkflowId | undefined>;
}

type Request = (services: OperationServices, id: string, caller: Caller) => Promise<{ workflow_id: WorkflowId }>;

/** A release has a deadline as soon as it is requested. Other actions get one when they start. */
async function releaseDeadline({ tx, services, allocation, at }: AllocationActionContext): Promise<Date | null> {
  const pool = await currentPool(tx, allocation.pool);
  return pool ? secondsLater(at, budgetOf('release', pool.document, services.environment, null).seconds) : null;
}

const requestAction = (send: Request, leads_to: AllocationStatus, says: string): AllocationAction => ({
  predict: async (context) => ({
    status: leads_to,
    deadline_at: leads_to === 'releasing' ? await releaseDeadline(context) : null,
    says,
  }),
  act: async ({ services, allocation, request, caller }) =>
    (await send(services, allocation.allocation_id, { ...caller, reason: request.reason })).workflow_id,
});

const retryAction = requestAction(
  requestRetry,
  'provisioning',
  'what is left of its machine is torn down, and a new machine is brought up',
);

const releaseAction = requestAction(requestRelease, 'releasing', 'it is released, with proof');

type AllocationOnlyName = 'retry' | 'release' | 'retry-release' | 'force-release' | 'extend-deadline';

const allocationOnlyActions: Record<AllocationOnlyName, AllocationAction> = {
  retry: {
    ...retryAction,
    async predict(context) {
      await readRetryPool(context.tx, context.allocation.pool);
      return retryAction.predict(context);
    },
  },
  release: {
    ...releaseAction,
    async predict(context) {
      const { node } = await readAllocationSubject(context.tx, context.allocation);
      return { ...(await releaseAction.predict(context)), says: releaseEffect(node) };
    },
  },
  'retry-release': requestAction(requestReleaseRetry, 'releasing', 'its release is retried now'),
  'force-release': requestAction(
    requestForceRelease,
    'released',
    'Slipway requests a proof again. With proof the allocation ends clean. Without proof possible remains are recorded as residue, and its machine is quarantined',
  ),
  'extend-deadline': { predict: predictExtension, act: extendAllocation },
};

const isAllocationOnly = (action: AllocationActionName): action is AllocationOnlyName =>
  Object.hasOwn(allocationOnlyActions, action);

/** While the machine boots or may be rescued, the allocation has the deadline of its node. */
const hasDeadlineOfNode = ({ status }: AllocationRow) => status === 'provisioning' || status === 'failed';

const isOnMachine = (
  action: AllocationActionName,
  allocation: AllocationRow,
): action is AllocationActionName & NodeActionName =>
  !isAllocationOnly(action) || (action === 'extend-deadline' && hasDeadlineOfNode(allocation));

/** Acts on the allocation's node, and returns the resulting status of the allocation. */
async function actOnMachine(
  { services, allocation, request, caller }: AllocationActionContext,
  action: NodeActionName,
): Promise<AllocationPrediction> {
  const { status, node_id } = allocation;
  if (!node_id) throw new ApiProblem('action_illegal', 'The allocation has no machine.');
  const statusBefore = (await readAllocationSubject(services.db, allocation)).node?.status;
  const result = await actOnNode(services, node_id, action, request, caller);
  const paired = statusBefore && pairedWith(statusBefore, result.status).find(({ from }) => from === status);
  return { ...result, status: paired ? paired.to : status };
}

async function actOnAllocationOnly(
  context: AllocationActionContext,
  action: AllocationOnlyName,
): Promise<AllocationPrediction> {
  const { tx, allocation, request, caller, at } = context;
  const prediction = await allocationOnlyActions[action].predict(context);
  if (request.dry_run) return prediction;
  const result = { ...prediction, workflow_id: await allocationOnlyActions[action].act(context, prediction) };
  const { allocation_id, node_id } = allocation;
  const ids = { target_id: allocation_id, allocation_id, node_id } satisfies KnownIds & { target_id: string };
  await recordAction(tx, action, ids, request, caller, result, at);
  return result;
}

/** Performs the action, or only predicts it with `dry_run`. */
export function actOnAllocation(
  services: OperationServices,
  id: string,
  action: AllocationActionName,
  request: ActionRequest,
  caller: Caller,
): Promise<AllocationPrediction> {
  return services.db.transaction(async (tx) => {
    const allocation = requireVisibleAllocation(await allocationRow(tx, id), caller);
    if (caller.visibility.kind !== 'fleet' && allocationActions[action].for === 'fleet')
      throw new ApiProblem('scope_insufficient', `Only operators of the whole fleet may ${action}.`);
    const why_not = whyNotOnAllocation(action, await readAllocationSubject(tx, allocation));
    if (why_not) throw new ApiProblem('action_illegal', why_not);
    const inTransaction = { ...services, db: withinTransaction(services.db, tx) };
    const context = { tx, services: inTransaction, allocation, request, caller, at: now(services.clock) };
    return isOnMachine(action, allocation)
      ? actOnMachine(context, action)
      : actOnAllocationOnly(context, action as AllocationOnlyName);
  });
}
