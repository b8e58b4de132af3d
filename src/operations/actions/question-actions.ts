/** `probe` and `collect-diagnostics`. Both queue an operation that only reads from a machine. */
import { newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import type { Node } from '../../contract/node.ts';
import { findQueuedOrRunning } from '../../store/operations/open-operations.ts';
import { type NewOperation, queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Action } from './action.ts';
import { diagnoseQuestion } from './node-diagnose.ts';
import { probeQuestion } from './node-probe.ts';

/**
 * Queues the operation and returns its id. If the node has a queued or running operation of the
 * same kind, returns the id of that operation. The caller holds the node's lock, so that no second
 * operation is queued.
 */
export async function queueOnce(
  tx: Transaction,
  services: OperationServices,
  question: Pick<NewOperation, 'kind' | 'revision' | 'steps'>,
  node: Node,
  caller: Caller,
  at: Date,
): Promise<WorkflowId> {
  const existing = await findQueuedOrRunning(tx, node.node_id, question.kind);
  if (existing) return existing;
  const workflow_id = newWorkflowId(services.clock);
  await queueOperation(
    tx,
    {
      ...question,
      workflow_id,
      node_id: node.node_id as never,
      node_instance_id: node.node_instance_id as never,
      tenant: null,
      correlation_id: caller.correlation_id,
      actor: caller.actor,
      // The allocation is only in the parameters. In the operation's `allocation_id`, releases and
      // retries would mistake this operation for a provision or release of the allocation.
      params: { allocation_id: node.allocation_id, reason: caller.reason ?? null },
    },
    at,
  );
  return workflow_id;
}

export const probe: Action = {
  predict: ({ node }) => ({
    status: node.status,
    deadline_at: node.deadline_at,
    says: node.endpoint
      ? `it is probed at ${node.endpoint}, and the result is stored in its timeline`
      : 'its agent gets a task, and whether it answers is stored in its timeline',
  }),
  act: ({ tx, services, apiNode, request, caller, at }) =>
    queueOnce(tx, services, probeQuestion, apiNode, { ...caller, reason: request.reason }, at),
};

export const collectDiagnostics: Action = {
  predict: ({ node }) => ({
    status: node.status,
    deadline_at: node.deadline_at,
    says: 'diagnostics of its agent and its provider are stored in its timeline, kind evidence.frozen',
  }),
  act: ({ tx, services, apiNode, request, caller, at }) =>
    queueOnce(tx, services, diagnoseQuestion, apiNode, { ...caller, reason: request.reason }, at),
};
