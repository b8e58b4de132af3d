/**
 * Performs actions on nodes, each in one transaction. lifecycle/actions/actions.ts decides in which
 * states an action is allowed. Tenants cannot act on nodes: the route admits only operators of the
 * fleet.
 */
import { now } from '../../base/clock.ts';
import type { KnownIds } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Node } from '../../contract/node.ts';
import { type NodeActionName, whyNotOnNode } from '../../lifecycle/actions/actions.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { type Queryable, StoreUnavailable, withinTransaction } from '../../store/pg/database.ts';
import { joinedRow, lockNode, nodeWire } from '../../store/rows/nodes.ts';
import { readGenerationDocument } from '../../store/rows/pools.ts';
import { lookForProof } from '../release/proof.ts';
import { requestForceRelease, requestReleaseRetry } from '../release/release-requests.ts';
import { readRetryPool, requestRetry } from '../requests.ts';
import type { AllocationOperation, Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { readSubject } from '../runtime/subject.ts';
import { acceptKey } from './accept-key.ts';
import { type Action, type ActionRequest, type Prediction, recordAction } from './action.ts';
import { readNodeSubject } from './action-subjects.ts';
import { applyHeldVerdict } from './apply-held-verdict.ts';
import { extendDeadline } from './extend-deadline.ts';
import { reEnroll, reimage, retire } from './instance-actions.ts';
import { collectDiagnostics, probe } from './question-actions.ts';
import { drain, quarantine, reactivate, undrain } from './status-actions.ts';

/** Short, because a person waits for the prediction. */
const predictWithinSeconds = 3;

/** An action that is offered on a node and performed on its allocation. */
interface AllocationRequest {
  /** Returns the resulting status and the effect in words. Throws if the action would throw. */
  predict(services: OperationServices, node: Node): Promise<{ status: NodeStatus; says: string }>;
  act(services: OperationServices, allocation_id: string, caller: Caller): Promise<AllocationOperation>;
}

const forceEffect =
  'Slipway requests a proof again. If the machine is proven gone, the node is retired; if it is proven clean, it is reused. Without proof the allocation is released, possible remains are recorded as residue, and the node is quarantined';

/**
 * Predicts the status after a forced release. It looks for the same proofs as the action, but asks
 * no agent and revokes no credential. The text `forceEffect` mentions the agent's proof.
 */
async function statusAfterForce(services: OperationServices, { node_id }: Node): Promise<'retired' | 'quarantined'> {
  const subject = await readSubject(services, services.db, node_id, {
    workflow_id: null,
    correlation_id: null,
    allocation_id: null,
  });
  const { driver, pool } = subject;
  if (!driver.launches && reusesNodes(pool)) return 'quarantined';
  // For this driver a revoked credential is the proof, and the action revokes it.
  if (driver.final_proof === 'revoked') return 'retired';
  const { proof } = await lookForProof(services.clock, subject, predictWithinSeconds);
  return proof ? 'retired' : 'quarantined';
}

/** A driver that fails gives no proof, so the prediction is `quarantined` and not an error. */
async function predictForceRelease(services: OperationServices, node: Node) {
  const status = await statusAfterForce(services, node).catch((error: unknown) => {
    if (error instanceof StoreUnavailable) throw error;
    return 'quarantined' as const;
  });
  return { status, says: forceEffect };
}

const allocationRequests: Partial<Record<NodeActionName, AllocationRequest>> = {
  retry: {
    async predict({ db }, { pool }) {
      await readRetryPool(db, pool);
      const says = 'Slipway tears down the remains of its machine and starts a new instance for its allocation';
      return { status: 'provisioning', says };
    },
    act: requestRetry,
  },
  'retry-release': {
    predict: async () => ({ status: 'cleaning', says: 'Slipway retries the release of its allocation now' }),
    act: requestReleaseRetry,
  },
  'force-release': {
    predict: predictForceRelease,
    act: requestForceRelease,
  },
};

const actions: Record<Exclude<NodeActionName, 'retry' | 'retry-release' | 'force-release'>, Action> = {
  'extend-deadline': extendDeadline,
  drain,
  undrain,
  quarantine,
  reactivate,
  reimage,
  're-enroll': reEnroll,
  retire,
  'accept-key': acceptKey,
  'apply-held-verdict': applyHeldVerdict,
  probe,
  'collect-diagnostics': collectDiagnostics,
};

const isDirect = (action: NodeActionName): action is keyof typeof actions => Object.hasOwn(actions, action);

/** Throws unless the action is allowed in the node's current state. */
async function requireAllowed(db: Queryable, id: string, action: NodeActionName): Promise<Node> {
  const row = await joinedRow(db, id, wholeFleet);
  if (!row) throw new ApiProblem('node_not_found');
  const node = nodeWire(row);
  const why_not = whyNotOnNode(action, await readNodeSubject(db, node, row.allocation_status));
  if (why_not) throw new ApiProblem('action_illegal', why_not);
  return node;
}

const idsOf = ({ node_id, node_instance_id, allocation_id }: Node) =>
  ({ target_id: node_id, node_id, node_instance_id, allocation_id }) as KnownIds & { target_id: string };

/**
 * Predicts before the transaction, because a prediction may call a driver and must hold no lock.
 * `act` locks the operation before the node, as every step does; locking the node first could
 * deadlock.
 */
async function requestOnAllocation(
  services: OperationServices,
  node: Node,
  action: NodeActionName,
  { predict, act }: AllocationRequest,
  request: ActionRequest,
  caller: Caller,
): Promise<Prediction<NodeStatus>> {
  const { allocation_id } = node;
  if (!allocation_id) throw new ApiProblem('action_illegal', 'The node has no allocation.');
  const prediction = { ...(await predict(services, node)), deadline_at: null };
  if (request.dry_run) return prediction;
  return services.db.transaction(async (tx) => {
    const inTransaction = { ...services, db: withinTransaction(services.db, tx) };
    const { workflow_id } = await act(inTransaction, allocation_id, { ...caller, reason: request.reason });
    const result = { ...prediction, workflow_id };
    await recordAction(tx, action, idsOf(node), request, caller, result, now(services.clock));
    return result;
  });
}

/** Performs the action, or only predicts it with `dry_run`. */
export async function actOnNode(
  services: OperationServices,
  id: string,
  action: NodeActionName,
  request: ActionRequest,
  caller: Caller,
): Promise<Prediction<NodeStatus>> {
  const onAllocation = allocationRequests[action];
  if (onAllocation) {
    const node = await requireAllowed(services.db, id, action);
    return requestOnAllocation(services, node, action, onAllocation, request, caller);
  }
  if (!isDirect(action)) throw new Error(`no handler for the node action ${action}`);
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    const node = await lockNode(tx, id);
    const apiNode = await requireAllowed(tx, id, action);
    const pool = node && (await readGenerationDocument(tx, node.pool, node.pool_generation));
    if (!pool) throw new ApiProblem('node_not_found');
    const context = { tx, services, node, pool, apiNode, request, caller, at };
    const prediction = await actions[action].predict(context);
    if (request.dry_run) return prediction;
    const effect = await actions[action].act(context, prediction);
    const result = { ...prediction, ...(typeof effect === 'object' ? effect : { workflow_id: effect }) };
    await recordAction(tx, action, idsOf(apiNode), request, caller, result, at);
    return result;
  });
}
