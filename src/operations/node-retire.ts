/** Takes a machine down for good, with proof, when no allocation asks for it: after its rescue window, or by an operator. */
import { now } from '../base/clock.ts';
import { newCorrelationId, newWorkflowId, type WorkflowId } from '../base/ids.ts';
import type { Actor } from '../contract/evidence.ts';
import type { OperationContext, OperationDefinition } from '../engine/engine.ts';
import type { Transaction } from '../store/database.ts';
import { transition } from '../store/door.ts';
import { once } from '../store/executions.ts';
import { fenceInstance } from '../store/instances.ts';
import type { NodeRow } from '../store/nodes.ts';
import { operationRow, queueOperation } from '../store/operations.ts';
import { releasePolicy } from './release-policy.ts';
import type { OperationServices } from './services.ts';
import { type PlanStep, stage } from './stage.ts';
import { steadily } from './steadily.ts';
import { readSubject, type Subject } from './subject.ts';
import { takeDown, takeDownPlan } from './take-down.ts';

export const nodeRetireKind = 'node-retire';

export const nodeRetirePlan: PlanStep[] = [
  ...takeDownPlan,
  { name: 'retire', label: 'Retiring the machine', usual_seconds: 0.5, within_seconds: 300 },
];

/** Moves the node to `cleaning` and queues the operation that ends it, in the caller's transaction. Undefined where the door refused. */
export async function retireIn(
  tx: Transaction,
  services: OperationServices,
  node: Pick<NodeRow, 'node_id' | 'node_instance_id' | 'correlation_id'>,
  cited: {
    by: 'rescue-over' | 'drain-deadline' | 'drained' | 'retire' | 'drift';
    reason: string;
    data?: Record<string, unknown>;
    actor?: Actor | null;
  },
  at: Date,
): Promise<WorkflowId | undefined> {
  const workflow_id = newWorkflowId(services.clock);
  const correlation_id = node.correlation_id ?? newCorrelationId();
  const [outcome] = await transition(
    tx,
    [{ node_id: node.node_id, to: 'cleaning', ...cited, workflow_id, set: { workflow_id } }],
    at,
    services.environment,
  );
  if (!outcome?.moved) return undefined;
  if (node.node_instance_id)
    await fenceInstance(
      tx,
      node.node_instance_id,
      { reason: cited.reason, revoke: false, workflow_id, correlation_id },
      at,
    );
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: nodeRetireKind,
      revision: 1,
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      tenant: null,
      correlation_id,
      actor: cited.actor ?? null,
      params: { reason: cited.reason },
      steps: nodeRetirePlan,
    },
    at,
  );
  return workflow_id;
}

export function nodeRetire(services: OperationServices): OperationDefinition {
  const subjectOf = async (context: OperationContext): Promise<{ subject: Subject; reason: string }> => {
    const operation = await steadily(services.clock, () => operationRow(services.db, context.workflow_id));
    if (!operation?.node_id) throw new Error(`operation ${context.workflow_id} has no node`);
    const { reason: because } = operation.params;
    const reason = typeof because === 'string' ? `proven gone: ${because}` : 'proven gone';
    return { subject: await readSubject(services, services.db, operation.node_id, operation), reason };
  };
  return {
    kind: nodeRetireKind,
    revision: 1,
    async run(context) {
      const { subject, reason } = await subjectOf(context);
      await takeDown(context, services, { subject, reuse: false, policy: releasePolicy(subject.pool) });
      await stage(context, services, 'retire', async () => {
        await context.step('retire:door', () => {
          const at = now(services.clock);
          return once(services.db, context.workflow_id, 'retire', services.executor, at, async (tx) => {
            await transition(
              tx,
              [{ node_id: subject.node.node_id, to: 'retired', by: 'proof', reason }],
              at,
              services.environment,
            );
            await fenceInstance(
              tx,
              subject.node_instance_id,
              { ...subject.ids, workflow_id: context.workflow_id, reason: 'the machine was retired', revoke: true },
              at,
            );
            return null;
          });
        });
      });
      await context.emit({ message: 'Retired' });
      return null;
    },
  };
}
