/** What every action on a node is given, and what it owes: a prediction, and the deed that fulfils it. */
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
  /** A drained node is set aside, or taken down for good. */
  drain_then?: 'hold' | 'retire' | undefined;
  /** accept-key: of the key that the person saw. */
  fingerprint?: string | undefined;
}

export interface Prediction<Status extends string = string> {
  status: Status;
  deadline_at: Date | null;
  says: string;
  /** accept-key: of the key that would be accepted. */
  fingerprint?: string;
  /** The operation that does it, once it is asked for. */
  workflow_id?: WorkflowId | undefined;
  /** Shown to whoever asked, runOnce, and kept nowhere. */
  enrollment_token?: string;
  /** What else there is to keep of it. */
  data?: Record<string, unknown>;
}

export interface Acting {
  tx: Transaction;
  services: OperationServices;
  /** Locked. */
  node: NodeRow;
  /** What it was made from. */
  pool: PoolDocument;
  /** The same, as everybody sees it: with its allocation and occupancy. */
  shown: Node;
  request: ActionRequest;
  caller: Caller;
  at: Date;
}

export type Deed = Pick<Prediction, 'workflow_id' | 'enrollment_token'>;

export interface Action {
  predict(acting: Acting): Prediction<NodeStatus> | Promise<Prediction<NodeStatus>>;
  /** Answers the operation that it queued, if it did, and a secret where there is one to show. */
  act(acting: Acting, prediction: Prediction<NodeStatus>): Promise<WorkflowId | undefined | Deed>;
}

export const changedMeanwhile = (what = 'The node has changed meanwhile; look at it again.') =>
  new ApiProblem('action_illegal', what);

/** Cited wherever the door is asked for what a person wants. */
export const citing = ({ request, caller }: Acting) => ({
  reason: request.reason,
  actor: caller.actor,
  correlation_id: caller.correlation_id,
});

/** The deadline that entering the status now would give it, as the door sets it. */
export function deadlineIn(status: NodeStatus, { node, pool, services, at }: Acting): Date | null {
  const phase = nodeStatuses[status].deadline;
  if (!phase) return null;
  return secondsLater(at, budgetOf(phase, pool, services.environment, node.requested_provision_seconds).seconds);
}

export interface ActingOnAllocation {
  tx: Transaction;
  /** They speak to `tx`. */
  services: OperationServices;
  allocation: AllocationRow;
  request: ActionRequest;
  caller: Caller;
  at: Date;
}

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
