/**
 * Replaces a node's instance in the caller's transaction, which also fences the former instance.
 * The evidence of the former instance stays. The caller checks that the instance may be replaced.
 */
import { type CorrelationId, type NodeInstanceId, newNodeInstanceId, type WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { createInstance, fenceInstance } from '../../store/agents/instances.ts';
import type { Transaction } from '../../store/pg/database.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import type { PoolRow } from '../../store/rows/pools.ts';
import { amendNode } from '../../store/transitions/amend-node.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import type { OperationServices } from '../runtime/services.ts';

export interface Replacement {
  by: 'retry' | 'proof' | 're-enroll';
  reason: string;
  /** The reason that calls by the former instance get in their refusal. */
  fence_reason: string;
  actor: Actor | null;
  /** The operation that brings up the new instance. */
  workflow_id: WorkflowId;
  correlation_id: CorrelationId;
}

export interface NewInstance {
  node: NodeRow;
  node_instance_id: NodeInstanceId;
  enrollment_token: string;
}

/**
 * Moves the node to the current generation of its pool, so that the new instance is made from it.
 */
export async function followPool(
  tx: Transaction,
  node: NodeRow,
  { name, generation }: PoolRow,
  now: Date,
): Promise<NodeRow> {
  if (node.pool_generation === generation) return node;
  const summary = `it now follows generation ${generation} of pool ${name}`;
  const fact = { at: now, layer: 'workflow', kind: 'node.follows_pool', summary } as const;
  return amendNode(tx, node, { pool_generation: generation }, fact);
}

/** The caller holds the node's lock. Returns undefined if the transition is refused. */
export async function replaceInstance(
  tx: Transaction,
  services: OperationServices,
  node: NodeRow,
  { by, reason, fence_reason, actor, workflow_id, correlation_id }: Replacement,
  now: Date,
): Promise<NewInstance | undefined> {
  const { node_id, pool, node_instance_id: former } = node;
  const node_instance_id = newNodeInstanceId(services.clock);
  const set = {
    node_instance_id,
    workflow_id,
    correlation_id,
    registered_at: null,
    reported_status: null,
    endpoint: null,
    observed_state: null,
    observed_at: null,
  };
  const move = { node_id, from: [node.status], to: 'provisioning', by, reason, set, actor } as const;
  const [outcome] = await transition(tx, [move], now, services.environment);
  if (!outcome?.moved) return undefined;
  const enrollment_token = services.installation.signEnrollmentToken({ pool, node_id, node_instance_id });
  await createInstance(tx, { node_instance_id, node_id, enrollment_token }, now);
  const fence = { reason: fence_reason, revoke: true, workflow_id, correlation_id };
  if (former) await fenceInstance(tx, former, fence, now);
  return { node: outcome.node, node_instance_id, enrollment_token };
}
