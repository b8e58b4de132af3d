/**
 * Actions on allocations; lifecycle/actions/allocation-actions.ts decides when they are open. They
 * work without a machine too.
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
import { requestRetry, retryingPool } from '../requests.ts';
import { type Caller, visibleAllocation } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type ActingOnAllocation, type ActionRequest, type Prediction, recordAction } from './action.ts';
import { allocationSubject } from './action-subjects.ts';
import { extendAllocation, predictExtension } from './extend-deadline.ts';
import { actOnNode } from './node-actions.ts';

type Predicted = Prediction<AllocationStatus>;

interface OwnAction {
  predict(acting: ActingOnAllocation): Predicted | Promise<Predicted>;
  act(acting: ActingOnAllocation, prediction: Predicted): Promise<WorkflowId | undefined>;
}

type Request = (services: OperationServices, id: string, caller: Caller) => Promise<{ workflow_id: WorkflowId }>;

/** A release has its deadline from the request on. Other actions get theirs when they start. */
async function releaseDeadline({ tx, services, allocation, at }: ActingOnAllocation): Promise<Date | null> {
  const pool = await currentPool(tx, allocation.pool);
  return pool ? secondsLater(at, budgetOf('release', pool.document, services.environment, null).seconds) : null;
}

const byRequest = (send: Request, leads_to: AllocationStatus, says: string): OwnAction => ({
  predict: async (acting) => ({
    status: leads_to,
    deadline_at: leads_to === 'releasing' ? await releaseDeadline(acting) : null,
    says,
  }),
  act: async ({ services, allocation, request, caller }) =>
    (await send(services, allocation.allocation_id, { ...caller, reason: request.reason })).workflow_id,
});

const retried = byRequest(
  requestRetry,
  'provisioning',
  'what is left of its machine is torn down, and a new one is brought up',
);

const released = byRequest(requestRelease, 'releasing', 'it is released, with proof');

type OwnName = 'retry' | 'release' | 'retry-release' | 'force-release' | 'extend-deadline';

const own: Record<OwnName, OwnAction> = {
  retry: {
    ...retried,
    async predict(acting) {
      await retryingPool(acting.tx, acting.allocation.pool);
      return retried.predict(acting);
    },
  },
  release: {
    ...released,
    async predict(acting) {
      const { node } = await allocationSubject(acting.tx, acting.allocation);
      return { ...(await released.predict(acting)), says: releaseEffect(node) };
    },
  },
  'retry-release': byRequest(requestReleaseRetry, 'releasing', 'its release is retried now'),
  'force-release': byRequest(
    requestForceRelease,
    'released',
    'Slipway requests a proof once more. With proof the allocation ends clean. Without proof possible remains go on the residue ledger, and its machine is quarantined',
  ),
  'extend-deadline': { predict: predictExtension, act: extendAllocation },
};

const isOwn = (action: AllocationActionName): action is OwnName => Object.hasOwn(own, action);

/** While the machine boots or may be rescued, both share the node's deadline. */
const sharesDeadline = ({ status }: AllocationRow) => status === 'provisioning' || status === 'failed';

const actsOnMachine = (
  action: AllocationActionName,
  allocation: AllocationRow,
): action is AllocationActionName & NodeActionName =>
  !isOwn(action) || (action === 'extend-deadline' && sharesDeadline(allocation));

/** Acts on the allocation's node, and returns the resulting status of the allocation. */
async function actOnMachine(
  { services, allocation, request, caller }: ActingOnAllocation,
  action: NodeActionName,
): Promise<Predicted> {
  const { status, node_id } = allocation;
  if (!node_id) throw new ApiProblem('action_illegal', 'It has no machine.');
  const before = (await allocationSubject(services.db, allocation)).node?.status;
  const done = await actOnNode(services, node_id, action, request, caller);
  const paired = before && pairedWith(before, done.status).find(({ from }) => from === status);
  return { ...done, status: paired ? paired.to : status };
}

async function actItself(acting: ActingOnAllocation, action: OwnName): Promise<Predicted> {
  const { tx, allocation, request, caller, at } = acting;
  const prediction = await own[action].predict(acting);
  if (request.dry_run) return prediction;
  const done = { ...prediction, workflow_id: await own[action].act(acting, prediction) };
  const { allocation_id, node_id } = allocation;
  const ids = { target_id: allocation_id, allocation_id, node_id } satisfies KnownIds & { target_id: string };
  await recordAction(tx, action, ids, request, caller, done, at);
  return done;
}

/** With `dry_run` it only predicts. */
export function actOnAllocation(
  services: OperationServices,
  id: string,
  action: AllocationActionName,
  request: ActionRequest,
  caller: Caller,
): Promise<Predicted> {
  return services.db.transaction(async (tx) => {
    const allocation = visibleAllocation(await allocationRow(tx, id), caller);
    if (caller.visibility.kind !== 'fleet' && allocationActions[action].for === 'fleet')
      throw new ApiProblem('scope_insufficient', `Only operators of the whole fleet may ${action}.`);
    const why_not = whyNotOnAllocation(action, await allocationSubject(tx, allocation));
    if (why_not) throw new ApiProblem('action_illegal', why_not);
    const within = { ...services, db: withinTransaction(services.db, tx) };
    const acting = { tx, services: within, allocation, request, caller, at: now(services.clock) };
    return actsOnMachine(action, allocation) ? actOnMachine(acting, action) : actItself(acting, action as OwnName);
  });
}
