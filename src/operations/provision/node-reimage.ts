/**
 * Reimages a node: freezes evidence, tears the machine down, proves it gone, and creates a new
 * instance from the current pool generation. The instance is replaced in the transaction that
 * settles the proof.
 */
import { now } from '../../base/clock.ts';
import { newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import type { DriverProof } from '../../drivers/driver.ts';
import {
  OperationCancelled,
  type OperationContext,
  type OperationDefinition,
  StepFailed,
} from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { bindOperationToNode } from '../../store/operations/operations.ts';
import { queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { currentPool, type PoolRow } from '../../store/rows/pools.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { retireProvenGone, settleProvenResidue } from '../release/proven-gone.ts';
import { releasePolicy } from '../release/release-policy.ts';
import { isCleanedBy, quarantineAfterFailure, tearDown, teardownPlan } from '../release/teardown.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import { type FormerInstance, readOperation, readSubject, type Subject } from '../runtime/subject.ts';
import { bringUp, giveUpAndFreeze } from './bring-up.ts';
import { followPool, replaceInstance } from './new-instance.ts';
import { bringUpPlan } from './provision-plan.ts';

export const nodeReimageKind = 'node-reimage';

const nodeReimagePlan = (pool: PoolRow, services: OperationServices): PlanStep[] => [
  ...teardownPlan,
  { name: 'renew', label: 'Creating a new instance', usual_seconds: 0.5, within_seconds: 300 },
  ...bringUpPlan(pool.document, services),
];

/**
 * Moves the node to `cleaning` and queues the operation, in the caller's transaction. The caller
 * holds the node's lock.
 */
export async function reimageIn(
  tx: Transaction,
  services: OperationServices,
  node: NodeRow,
  pool: PoolRow,
  { actor, correlation_id, reason }: Caller & { reason: string },
  at: Date,
): Promise<WorkflowId | undefined> {
  const { node_id, node_instance_id, pool_generation, registered_at } = node;
  if (!node_instance_id) return undefined;
  const workflow_id = newWorkflowId(services.clock);
  const ids = { workflow_id, correlation_id };
  const move = { node_id, to: 'cleaning', by: 'reimage', reason, actor, ...ids, set: ids } as const;
  const [outcome] = await transition(tx, [move], at, services.environment);
  if (!outcome?.moved) return undefined;
  // A registered instance may report until it is torn down. An unregistered one must not register
  // any more.
  const unregisteredFence = { reason: 'the node is reimaged before this instance registered', revoke: false, ...ids };
  if (!registered_at) await fenceInstance(tx, node_instance_id, unregisteredFence, at);
  const params = { former: { node_instance_id, pool_generation } satisfies FormerInstance };
  const steps = nodeReimagePlan(pool, services);
  const operation = { kind: nodeReimageKind, revision: 1, node_id, node_instance_id, tenant: null, actor };
  await queueOperation(tx, { ...operation, ...ids, params, steps }, at);
  return workflow_id;
}

/** Replaces the former instance after it is proven gone, and revokes its credential. */
async function renew(
  context: OperationContext,
  services: OperationServices,
  former: Subject,
  proof: DriverProof | undefined,
): Promise<void> {
  const { workflow_id } = context;
  const fence_reason = 'the machine was reimaged';
  const isRenewed = await context.step('renew:door', () => {
    const at = now(services.clock);
    return runOnce(services.db, workflow_id, 'renew', services.executor, at, async (tx, operation) => {
      const { actor, correlation_id } = operation;
      const node = await lockNode(tx, former.node.node_id);
      const pool = await currentPool(tx, former.node.pool);
      const currentNode = isCleanedBy(node, workflow_id) && pool ? await followPool(tx, node, pool, at) : undefined;
      const replacement = { by: 'proof', reason: 'proven gone; a new instance takes its place', actor } as const;
      const details = { ...replacement, fence_reason, workflow_id, correlation_id };
      const newInstance = currentNode && (await replaceInstance(tx, services, currentNode, details, at));
      if (newInstance) await bindOperationToNode(tx, workflow_id, newInstance.node);
      // The destroyed instance must not report for the node, whatever the node's status is now.
      else {
        await fenceInstance(tx, former.node_instance_id, { ...former.ids, reason: fence_reason, revoke: true }, at);
        const gone = { node_id: former.node.node_id, node_instance_id: former.node_instance_id, reason: 'proven gone' };
        // If an operator quarantined the node meanwhile, it is retired: no machine is left to keep.
        if (proof) await retireProvenGone(tx, services, { ...gone, proof: proof.kind, workflow_id, actor }, at);
      }
      await settleProvenResidue(tx, former, proof, operation, at);
      return newInstance !== undefined;
    });
  });
  if (!isRenewed) throw new OperationCancelled();
}

export function nodeReimage(services: OperationServices): OperationDefinition {
  const readFormer = async (context: OperationContext, former: FormerInstance): Promise<Subject> => {
    const operation = await readOperation(services, context);
    if (!operation.node_id) throw new Error(`operation ${context.workflow_id} has no node`);
    return readSubject(services, services.db, operation.node_id, operation, former);
  };
  return {
    kind: nodeReimageKind,
    revision: 1,
    async run(context, params) {
      const former = await readFormer(context, (params as unknown as { former: FormerInstance }).former);
      try {
        const policy = releasePolicy(former.pool);
        const proof = await tearDown(context, services, { subject: former, reuse: false, policy });
        await stage(context, services, 'renew', () => renew(context, services, former, proof));
      } catch (error) {
        await quarantineAfterFailure(context, services, former, 'the reimage', error);
        throw error;
      }
      try {
        await bringUp(context, services);
      } catch (error) {
        if (error instanceof StepFailed) await giveUpAndFreeze(context, services, error);
        throw error;
      }
      await context.emit({ message: 'Ready' });
      return null;
    },
  };
}
