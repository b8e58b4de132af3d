/**
 * Enrols a machine again after its credential was lost, as a new instance of the same node. Calls
 * by the former instance are refused.
 *
 * An external machine is kept, and so is its allocation: the new instance exists at once, and a
 * person starts the agent with the new token. A launched machine has the tags of its instance.
 * Replacing the instance would leave that machine without an owner, so it is removed with proof
 * before the driver launches the next one. In both cases a ping then proves that tasks reach the
 * agent and its answers arrive.
 */
import { now } from '../../base/clock.ts';
import { newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import type { Node } from '../../contract/node.ts';
import {
  OperationCancelled,
  type OperationContext,
  type OperationDefinition,
  StepFailed,
} from '../../engine/engine.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { bindOperationToNode } from '../../store/operations/operations.ts';
import { type NewOperation, queueOperation } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockNode, type NodeRow } from '../../store/rows/nodes.ts';
import { currentPool, type PoolRow } from '../../store/rows/pools.ts';
import { moveAllocations } from '../../store/transitions/allocation-transition.ts';
import { bindNodeToOperation } from '../../store/transitions/amend-node.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import { freezeFromDriver } from '../release/freeze-evidence.ts';
import { settleProvenResidue } from '../release/proven-gone.ts';
import { removeMachine } from '../release/teardown.ts';
import type { Caller } from '../runtime/caller.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, skipStage, stage } from '../runtime/stage.ts';
import { type FormerInstance, readOperation, readSubject, type Subject } from '../runtime/subject.ts';
import { bringUp, giveUpAndFreeze } from './bring-up.ts';
import { launchPolicy } from './launch.ts';
import { followPool, type NewInstance, replaceInstance } from './new-instance.ts';
import { pingPlan, proveByPing } from './ping.ts';
import { bringUpPlan } from './provision-plan.ts';

export const nodeReEnrollKind = 'node-re-enroll';

const formerPlan: PlanStep[] = [
  { name: 'former', label: 'Removing the former instance', usual_seconds: 1, within_seconds: 900 },
];
const fence_reason = 'the machine enrols again';

export interface ReEnrolmentResult {
  workflow_id: WorkflowId;
  /** For the person who starts the agent. Absent if a driver starts the agent. */
  enrollment_token?: string;
}

interface ReEnrolment {
  node: NodeRow;
  apiNode: Node;
  pool: PoolRow;
  caller: Caller & { reason: string };
}

async function replace(
  tx: Transaction,
  services: OperationServices,
  node: NodeRow,
  pool: PoolRow,
  { actor, correlation_id, reason }: Pick<Caller, 'actor' | 'correlation_id' | 'reason'>,
  workflow_id: WorkflowId,
  at: Date,
): Promise<NewInstance | undefined> {
  const updatedNode = await followPool(tx, node, pool, at);
  const cause = { by: 're-enroll', reason: reason ?? fence_reason, fence_reason, actor } as const;
  return replaceInstance(tx, services, updatedNode, { ...cause, workflow_id, correlation_id }, at);
}

/** Moves an allocation that failed with the machine, and can be rescued, back to waiting for it. */
async function rescueHolder(
  tx: Transaction,
  services: OperationServices,
  { apiNode, caller: { actor, correlation_id, reason } }: ReEnrolment,
  { node }: NewInstance,
  workflow_id: WorkflowId,
  at: Date,
): Promise<void> {
  if (apiNode.occupancy !== 'reserved' || !apiNode.allocation_id) return;
  const allocation_id = apiNode.allocation_id as NonNullable<NewOperation['allocation_id']>;
  const move = { allocation_id, from: ['failed'], to: 'provisioning', by: 'rescue', node } as const;
  const cause = { reason: `its machine is enrolling again: ${reason}`, actor, correlation_id, workflow_id };
  const outcomes = await moveAllocations(tx, [{ ...move, ...cause, set: { workflow_id } }], at, services.environment);
  requireMoved(outcomes, 'status_moved_on');
}

/** The caller holds the node's lock. Returns undefined if the node has moved on. */
export async function reEnrollIn(
  tx: Transaction,
  services: OperationServices,
  enrolment: ReEnrolment,
  at: Date,
): Promise<ReEnrolmentResult | undefined> {
  const { node, pool, caller } = enrolment;
  const { node_id, node_instance_id: former, pool_generation } = node;
  const { actor, correlation_id, reason } = caller;
  if (!former) return undefined;
  const workflow_id = newWorkflowId(services.clock);
  const operation: NewOperation = {
    workflow_id,
    kind: nodeReEnrollKind,
    revision: 1,
    node_id,
    node_instance_id: former,
    tenant: null,
    correlation_id,
    actor,
    params: { former: { node_instance_id: former, pool_generation } satisfies FormerInstance, reason },
    steps: [...formerPlan, ...bringUpPlan(pool.document, services), ...pingPlan],
  };
  if (services.drivers.get(pool.driver)?.launches) {
    await bindNodeToOperation(tx, node, operation, at);
    await fenceInstance(tx, former, { reason: fence_reason, revoke: true, workflow_id, correlation_id }, at);
    await queueOperation(tx, operation, at);
    return { workflow_id };
  }
  const newInstance = await replace(tx, services, node, pool, caller, workflow_id, at);
  if (!newInstance) return undefined;
  await rescueHolder(tx, services, enrolment, newInstance, workflow_id, at);
  await queueOperation(tx, { ...operation, node_instance_id: newInstance.node_instance_id }, at);
  return { workflow_id, enrollment_token: newInstance.enrollment_token };
}

/**
 * The node keeps its former instance until the instance is proven gone, so that the machine has an
 * owner.
 */
async function removeAndReplace(
  context: OperationContext,
  services: OperationServices,
  former: Subject,
): Promise<void> {
  const { workflow_id } = context;
  await freezeFromDriver(context, services, 'former:freeze', former);
  const proof = await removeMachine(context, services, 'former', former, launchPolicy);
  const isReplaced = await context.step('former:door', () => {
    const at = now(services.clock);
    return runOnce(services.db, workflow_id, 'replace', services.executor, at, async (tx, operation) => {
      const node = await lockNode(tx, former.node.node_id);
      const pool = await currentPool(tx, former.node.pool);
      await settleProvenResidue(tx, former, proof, operation, at);
      const isOurs = node?.workflow_id === workflow_id && node.node_instance_id === former.node_instance_id;
      if (!node || !pool || !isOurs) return false;
      const { actor, correlation_id, params } = operation;
      const cause = { actor, correlation_id, reason: String(params.reason) };
      const replacement = await replace(tx, services, node, pool, cause, workflow_id, at);
      if (replacement) await bindOperationToNode(tx, workflow_id, replacement.node);
      return replacement !== undefined;
    });
  });
  if (!isReplaced) throw new OperationCancelled();
}

export function nodeReEnroll(services: OperationServices): OperationDefinition {
  return {
    kind: nodeReEnrollKind,
    revision: 1,
    async run(context, params) {
      const operation = await readOperation(services, context);
      if (!operation.node_id) throw new Error(`operation ${context.workflow_id} has no node`);
      const { former: formerInstance } = params as unknown as { former: FormerInstance };
      const former = await readSubject(services, services.db, operation.node_id, operation, formerInstance);
      if (former.driver.launches)
        await stage(context, services, 'former', () => removeAndReplace(context, services, former));
      else await skipStage(context, services, 'former');
      try {
        await bringUp(context, services);
      } catch (error) {
        if (error instanceof StepFailed) await giveUpAndFreeze(context, services, error);
        throw error;
      }
      await proveByPing(context, services);
      await context.emit({ message: 'Ready; it answered a ping' });
      return null;
    },
  };
}
