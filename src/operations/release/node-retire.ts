/**
 * Tears a machine down for good, with proof, when no allocation needs it: after its rescue window,
 * after a drain, because of drift, or on request of an operator.
 */
import { now } from '../../base/clock.ts';
import { type NodeId, newCorrelationId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { DriverProof } from '../../drivers/driver.ts';
import { OperationCancelled, type OperationContext, type OperationDefinition } from '../../engine/engine.ts';
import { fenceInstance, fenceInstances } from '../../store/agents/instances.ts';
import { runOnce } from '../../store/operations/executions.ts';
import { readOperationRow } from '../../store/operations/operations.ts';
import { queueOperations } from '../../store/operations/queue-operation.ts';
import type { Transaction } from '../../store/pg/database.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { retryWhileUnavailable } from '../runtime/bounded-calls.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import { readSubject, type Subject } from '../runtime/subject.ts';
import { settleProvenResidue } from './proven-gone.ts';
import { releasePolicy } from './release-policy.ts';
import { quarantineAfterFailure, tearDown, teardownPlan } from './teardown.ts';

export const nodeRetireKind = 'node-retire';

export const nodeRetirePlan: PlanStep[] = [
  ...teardownPlan,
  { name: 'retire', label: 'Retiring the machine', usual_seconds: 0.5, within_seconds: 300 },
];

type RetiredNode = Pick<NodeRow, 'node_id' | 'node_instance_id' | 'correlation_id'>;

interface RetirementCause {
  by: 'rescue-over' | 'drain-deadline' | 'drained' | 'retire' | 'drift';
  reason: string;
  data?: Record<string, unknown>;
  actor?: Actor | null;
}

export interface Retirement extends RetirementCause {
  node: RetiredNode;
}

/**
 * Moves nodes to `cleaning` and queues their teardowns, in the caller's transaction, with a fixed
 * number of statements. Returns the operation of each node that moved.
 */
export async function retireAllIn(
  tx: Transaction,
  services: OperationServices,
  retirements: Retirement[],
  at: Date,
): Promise<Map<NodeId, WorkflowId>> {
  const planned = retirements.map(({ node, ...cause }) => ({
    node,
    cause,
    workflow_id: newWorkflowId(services.clock),
    correlation_id: node.correlation_id ?? newCorrelationId(),
  }));
  const outcomes = await transition(
    tx,
    planned.map(({ node: { node_id }, cause, workflow_id }) => {
      return { node_id, to: 'cleaning', ...cause, workflow_id, set: { workflow_id } };
    }),
    at,
    services.environment,
  );
  const moved = planned.filter((_, index) => outcomes[index]?.moved);
  await fenceInstances(
    tx,
    moved.flatMap(({ node: { node_instance_id }, cause: { reason }, workflow_id, correlation_id }) =>
      node_instance_id ? [{ node_instance_id, reason, workflow_id, correlation_id }] : [],
    ),
    false,
    at,
  );
  await queueOperations(
    tx,
    moved.map(({ node: { node_id, node_instance_id }, cause, workflow_id, correlation_id }) => ({
      workflow_id,
      kind: nodeRetireKind,
      revision: 1,
      node_id,
      node_instance_id,
      tenant: null,
      correlation_id,
      actor: cause.actor ?? null,
      params: { reason: cause.reason },
      steps: nodeRetirePlan,
    })),
    at,
  );
  return new Map(moved.map(({ node, workflow_id }) => [node.node_id, workflow_id]));
}

/** Retires one node. Returns undefined if the transition is refused. */
export const retireIn = async (
  tx: Transaction,
  services: OperationServices,
  node: RetiredNode,
  cause: RetirementCause,
  at: Date,
): Promise<WorkflowId | undefined> => (await retireAllIn(tx, services, [{ ...cause, node }], at)).get(node.node_id);

async function retireNode(
  context: OperationContext,
  services: OperationServices,
  { node: { node_id }, node_instance_id, ids }: Subject,
  reason: string,
  proof: DriverProof | undefined,
): Promise<void> {
  const { workflow_id } = context;
  const isRetired = await context.step('retire:door', () => {
    const at = now(services.clock);
    return runOnce(services.db, workflow_id, 'retire', services.executor, at, async (tx, operation) => {
      const move = { node_id, node_instance_id, to: 'retired', by: 'proof', reason } as const;
      const [outcome] = await transition(tx, [move], at, services.environment);
      // A revoked credential settles residue only if the node leaves the fleet; proven absence
      // always does.
      if (outcome?.moved || proof?.kind === 'absent')
        await settleProvenResidue(tx, { node_instance_id }, proof, operation, at);
      const fence = { ...ids, workflow_id, reason: 'the machine was retired', revoke: true };
      await fenceInstance(tx, node_instance_id, fence, at);
      return outcome?.moved || outcome?.because === 'already_there';
    });
  });
  // The machine is gone, but a person or a rule has moved the node to another status, so this
  // operation did not retire the node.
  if (!isRetired) throw new OperationCancelled();
}

export function nodeRetire(services: OperationServices): OperationDefinition {
  const readRetirement = async (context: OperationContext): Promise<{ subject: Subject; reason: string }> => {
    const operation = await retryWhileUnavailable(services.clock, () =>
      readOperationRow(services.db, context.workflow_id),
    );
    if (!operation?.node_id) throw new Error(`operation ${context.workflow_id} has no node`);
    const { reason: requestReason } = operation.params;
    const reason = typeof requestReason === 'string' ? `proven gone: ${requestReason}` : 'proven gone';
    return { subject: await readSubject(services, services.db, operation.node_id, operation), reason };
  };
  return {
    kind: nodeRetireKind,
    revision: 1,
    async run(context) {
      const { subject, reason } = await readRetirement(context);
      try {
        const teardown = { subject, reuse: false, policy: releasePolicy(subject.pool) };
        const proof = await tearDown(context, services, teardown);
        await stage(context, services, 'retire', () => retireNode(context, services, subject, reason, proof));
      } catch (error) {
        await quarantineAfterFailure(context, services, subject, 'the teardown', error);
        throw error;
      }
      await context.emit({ message: 'Retired' });
      return null;
    },
  };
}
