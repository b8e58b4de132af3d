/** The parts of an action: its request, its prediction, and the function that performs it. */
import { secondsLater } from '../../base/clock.ts';
import type { KnownIds, WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Node } from '../../contract/node.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { type NodeStatus, nodeStatuses } from '../../lifecycle/model/states.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Queryable, Transaction } from '../../store/pg/database.ts';
import type { AllocationRow } from '../../store/rows/allocations.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';

export interface ActionRequest {
  reason: string;
  dry_run?: boolean | undefined;
  seconds?: number | undefined;
  /** drain: whether the node is then quarantined (`hold`) or torn down for good (`retire`). */
  drain_then?: 'hold' | 'retire' | undefined;
  /** accept-key: the fingerprint that the person saw. */
  fingerprint?: string | undefined;
}

export interface Prediction<Status extends string = string> {
  status: Status;
  deadline_at: Date | null;
  says: string;
  /** accept-key: the fingerprint that would be accepted. */
  fingerprint?: string;
  /** The queued operation. */
  workflow_id?: WorkflowId | undefined;
  /** Returned to the caller once and never stored. */
  enrollment_token?: string;
  /** More fields for the evidence. */
  data?: Record<string, unknown>;
}

export interface ActionContext {
  tx: Transaction;
  services: OperationServices;
  /** Locked by `tx`. */
  node: NodeRow;
  /** The document of the pool generation that the node was made from. */
  pool: PoolDocument;
  /** The node as the API returns it, with allocation and occupancy. */
  apiNode: Node;
  request: ActionRequest;
  caller: Caller;
  at: Date;
}

export type ActionResult = Pick<Prediction, 'workflow_id' | 'enrollment_token'>;

export interface Action {
  predict(context: ActionContext): Prediction<NodeStatus> | Promise<Prediction<NodeStatus>>;
  /** Returns the queued operation, if any, and a secret to show to the caller. */
  act(context: ActionContext, prediction: Prediction<NodeStatus>): Promise<WorkflowId | undefined | ActionResult>;
}

export const changedError = (what = 'The node changed in the meantime. Check it and try again.') =>
  new ApiProblem('action_illegal', what);

/** The fields of a transition that name the person and the reason. */
export const reasonAndActor = ({ request, caller }: ActionContext) => ({
  reason: request.reason,
  actor: caller.actor,
  correlation_id: caller.correlation_id,
});

/** The deadline that a transition to the status would set. */
export function deadlineAfterMove(status: NodeStatus, { node, pool, services, at }: ActionContext): Date | null {
  const phase = nodeStatuses[status].deadline;
  if (!phase) return null;
  return secondsLater(at, budgetOf(phase, pool, services.environment, node.requested_provision_seconds).seconds);
}

export interface AllocationActionContext {
  tx: Transaction;
  /** The `db` of these services runs every statement in `tx`. */
  services: OperationServices;
  allocation: AllocationRow;
  request: ActionRequest;
  caller: Caller;
  at: Date;
}

/** Records that an action was done, by whom and why. */
export const recordAction = (
  db: Queryable,
  action: string,
  { target_id, ...ids }: KnownIds & { target_id: string },
  { reason }: ActionRequest,
  { actor, correlation_id }: Caller,
  { says, workflow_id, data }: Prediction,
  at: Date,
): Promise<void> =>
  recordEvidence(db, [
    {
      at,
      layer: 'operator',
      kind: 'action.done',
      summary: `${action}: ${says} (${reason})`,
      data: { action, target_id, reason, says, ...data },
      actor,
      ...ids,
      correlation_id,
      workflow_id: workflow_id ?? null,
    },
  ]);
