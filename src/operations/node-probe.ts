/**
 * Asks a machine once, now, whether it lives: where it said that it can be reached, else by a task that proves claim and result. What
 * was seen is kept as any probe is, so a machine that answers counts as alive; nothing else changes.
 */
import { now } from '../base/clock.ts';
import { newWorkflowId, type WorkflowId } from '../base/ids.ts';
import type { Node } from '../contract/node.ts';
import type { OperationContext, OperationDefinition } from '../engine/engine.ts';
import type { Transaction } from '../store/database.ts';
import { openOperationOnNode, queueOperation } from '../store/operations.ts';
import { keepAnswers, probeTargetOf } from '../store/probes.ts';
import { type AgentLine, askAgent } from './agent-task.ts';
import type { Asker } from './requests.ts';
import type { OperationServices } from './services.ts';
import { type PlanStep, stage } from './stage.ts';
import { nodeSubjectOf, type Subject } from './subject.ts';

export const nodeProbeKind = 'node-probe';

const answerWithinSeconds = 10;

const nodeProbePlan: PlanStep[] = [
  { name: 'ask', label: 'Asking whether it lives', usual_seconds: 0.5, within_seconds: 6 * answerWithinSeconds },
];

/** The caller holds the node's lock. Asking again while somebody asks is the same question. */
export async function probeIn(
  tx: Transaction,
  services: OperationServices,
  node: Node,
  asker: Asker,
  at: Date,
): Promise<WorkflowId> {
  const under_way = await openOperationOnNode(tx, node.node_id, nodeProbeKind);
  if (under_way) return under_way;
  const workflow_id = newWorkflowId(services.clock);
  await queueOperation(
    tx,
    {
      workflow_id,
      kind: nodeProbeKind,
      revision: 1,
      node_id: node.node_id as never,
      node_instance_id: node.node_instance_id as never,
      tenant: null,
      correlation_id: asker.correlation_id,
      actor: asker.actor,
      // Not the operation's own allocation: whoever releases or retries that must not take this for its provision or release.
      params: { allocation_id: node.allocation_id, reason: asker.reason ?? null },
      steps: nodeProbePlan,
    },
    at,
  );
  return workflow_id;
}

async function askEndpoint(
  context: OperationContext,
  services: OperationServices,
  { node, node_instance_id, pool, ids }: Subject,
  endpoint: string,
): Promise<string> {
  const { ok, detail } = await context.step('ask:endpoint', async () => {
    const answer = await services.probe(probeTargetOf(endpoint, pool.probe ?? null));
    const asked_for = { ...ids, workflow_id: context.workflow_id };
    const kept = { node_id: node.node_id, node_instance_id, ...answer, asked_for };
    await keepAnswers(services.db, [kept], now(services.clock));
    return { ...answer };
  });
  return ok ? `It lives: ${endpoint} answered, ${detail}` : `It does not answer at ${endpoint}: ${detail}`;
}

async function askItsAgent(context: OperationContext, services: OperationServices, subject: Subject): Promise<string> {
  const line: AgentLine = { silent: false };
  const task = { type: 'ping', wait_seconds: answerWithinSeconds };
  const answer = await askAgent(context, services, 'ask:agent', subject, line, task);
  if (!answer) return 'Its agent has not been heard lately, so there is nobody to ask';
  if (answer.status === 'succeeded') return 'It lives: its agent took a task and answered it';
  return answer.status === 'failed'
    ? `Its agent answered, but failed: ${answer.error?.message ?? 'it did not say why'}`
    : `Its agent beats, but took no task within ${answerWithinSeconds} s`;
}

export function nodeProbe(services: OperationServices): OperationDefinition {
  return {
    kind: nodeProbeKind,
    revision: 1,
    async run(context) {
      const subject = await nodeSubjectOf(services, context);
      await stage(context, services, 'ask', async () => {
        const { endpoint } = subject.node;
        const message = endpoint
          ? await askEndpoint(context, services, subject, endpoint)
          : await askItsAgent(context, services, subject);
        await context.emit({ message });
      });
      return null;
    },
  };
}
