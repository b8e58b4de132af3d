/**
 * Actions on nodes, each in one transaction. lifecycle/actions/actions.ts decides when they are
 * open.
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
import { poolGeneration } from '../../store/rows/pools.ts';
import { lookForProof } from '../release/proof.ts';
import { requestForceRelease, requestReleaseRetry } from '../release/release-requests.ts';
import { requestRetry, retryingPool } from '../requests.ts';
import type { Caller, Touched } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { readSubject } from '../runtime/subject.ts';
import { acceptKey } from './accept-key.ts';
import { type Action, type ActionRequest, type Prediction, recordAction } from './action.ts';
import { nodeSubject } from './action-subjects.ts';
import { applyHeldVerdict } from './apply-held-verdict.ts';
import { extendDeadline } from './extend-deadline.ts';
import { reEnroll, reimage, retire } from './instance-actions.ts';
import { collectDiagnostics, probe } from './question-actions.ts';
import { drain, quarantine, reactivate, undrain } from './status-actions.ts';

/** A prediction does not wait long for a driver that hangs. */
const predictWithinSeconds = 3;

interface ByAllocation {
  /** Returns the resulting status and the effect in words. Throws where the action would. */
  predict(services: OperationServices, shown: Node): Promise<{ status: NodeStatus; says: string }>;
  act(services: OperationServices, allocation_id: string, caller: Caller): Promise<Touched>;
}

const forceEffect =
  'a proof is requested once more: with one it is retired if its machine is gone, or reused if it is proven clean; without one its allocation is released, possible remains go on the residue ledger, and it is quarantined';

/**
 * Checks as the action will, but asks no agent and revokes nothing. The text mentions a proof by
 * the agent.
 */
async function statusAfterForce(services: OperationServices, { node_id }: Node): Promise<'retired' | 'quarantined'> {
  const subject = await readSubject(services, services.db, node_id, {
    workflow_id: null,
    correlation_id: null,
    allocation_id: null,
  });
  const { driver, pool } = subject;
  if (!driver.launches && reusesNodes(pool)) return 'quarantined';
  // The action revokes the credential, which is the proof.
  if (driver.final_proof === 'revoked') return 'retired';
  const { proof } = await lookForProof(services.clock, subject, predictWithinSeconds);
  return proof ? 'retired' : 'quarantined';
}

/** An error is no proof here, and must not prevent the prediction. */
async function predictForced(services: OperationServices, shown: Node) {
  const status = await statusAfterForce(services, shown).catch((error: unknown) => {
    if (error instanceof StoreUnavailable) throw error;
    return 'quarantined' as const;
  });
  return { status, says: forceEffect };
}

const byAllocation: Partial<Record<NodeActionName, ByAllocation>> = {
  retry: {
    async predict({ db }, { pool }) {
      await retryingPool(db, pool);
      const says = 'what is left of it is torn down, and a new instance is brought up for its allocation';
      return { status: 'provisioning', says };
    },
    act: requestRetry,
  },
  'retry-release': {
    predict: async () => ({ status: 'cleaning', says: 'the release of its allocation is retried now' }),
    act: requestReleaseRetry,
  },
  'force-release': {
    predict: predictForced,
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

/** Throws unless the table opens the action in this state. */
async function requireOpen(db: Queryable, id: string, action: NodeActionName): Promise<Node> {
  const row = await joinedRow(db, id, wholeFleet);
  if (!row) throw new ApiProblem('node_not_found');
  const shown = nodeWire(row);
  const why_not = whyNotOnNode(action, await nodeSubject(db, shown, row.allocation_status));
  if (why_not) throw new ApiProblem('action_illegal', why_not);
  return shown;
}

const idsOf = ({ node_id, node_instance_id, allocation_id }: Node) =>
  ({ target_id: node_id, node_id, node_instance_id, allocation_id }) as KnownIds & { target_id: string };

/**
 * Predicts before it locks anything, because a prediction may call a driver. The request locks the
 * allocation's operation first, as every operation's step does, so the node must not be locked
 * before.
 */
async function actByAllocation(
  services: OperationServices,
  shown: Node,
  action: NodeActionName,
  { predict, act }: ByAllocation,
  request: ActionRequest,
  caller: Caller,
): Promise<Prediction<NodeStatus>> {
  const { allocation_id } = shown;
  if (!allocation_id) throw new ApiProblem('action_illegal', 'It has no allocation.');
  const prediction = { ...(await predict(services, shown)), deadline_at: null };
  if (request.dry_run) return prediction;
  return services.db.transaction(async (tx) => {
    const within = { ...services, db: withinTransaction(services.db, tx) };
    const { workflow_id } = await act(within, allocation_id, { ...caller, reason: request.reason });
    const done = { ...prediction, workflow_id };
    await recordAction(tx, action, idsOf(shown), request, caller, done, now(services.clock));
    return done;
  });
}

/** With `dry_run` it only predicts. */
export async function actOnNode(
  services: OperationServices,
  id: string,
  action: NodeActionName,
  request: ActionRequest,
  caller: Caller,
): Promise<Prediction<NodeStatus>> {
  const through = byAllocation[action];
  if (through)
    return actByAllocation(services, await requireOpen(services.db, id, action), action, through, request, caller);
  if (!isDirect(action)) throw new Error(`nobody knows how to ${action} a node`);
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    const node = await lockNode(tx, id);
    const shown = await requireOpen(tx, id, action);
    const pool = node && (await poolGeneration(tx, node.pool, node.pool_generation));
    if (!pool) throw new ApiProblem('node_not_found');
    const acting = { tx, services, node, pool, shown, request, caller, at };
    const prediction = await actions[action].predict(acting);
    if (request.dry_run) return prediction;
    const result = await actions[action].act(acting, prediction);
    const done = { ...prediction, ...(typeof result === 'object' ? result : { workflow_id: result }) };
    await recordAction(tx, action, idsOf(shown), request, caller, done, at);
    return done;
  });
}
