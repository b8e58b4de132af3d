/**
 * Probes a machine once: at its endpoint, or with a task if the machine has no endpoint. A result
 * from the endpoint is stored like that of any probe, so a machine that answers counts as alive.
 */
import { now } from '../../base/clock.ts';
import type { OperationContext, OperationDefinition } from '../../engine/engine.ts';
import { probeTargetOf, saveProbeResults } from '../../store/supervision/probes.ts';
import { type AgentContact, askAgent } from '../runtime/agent-task.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, stage } from '../runtime/stage.ts';
import { readSubjectWithParamsAllocation, type Subject } from '../runtime/subject.ts';

export const nodeProbeKind = 'node-probe';

const answerWithinSeconds = 10;

const nodeProbePlan: PlanStep[] = [
  { name: 'ask', label: 'Probing the machine', usual_seconds: 0.5, within_seconds: 6 * answerWithinSeconds },
];

export const probeQuestion = { kind: nodeProbeKind, revision: 1, steps: nodeProbePlan };

async function probeEndpoint(
  context: OperationContext,
  services: OperationServices,
  { node, node_instance_id, pool, ids }: Subject,
  endpoint: string,
): Promise<string> {
  const { ok, detail } = await context.step('ask:endpoint', async () => {
    const answer = await services.probe(probeTargetOf(endpoint, pool.probe ?? null));
    const request_ids = { ...ids, workflow_id: context.workflow_id };
    const result = { node_id: node.node_id, node_instance_id, ...answer, request_ids };
    await saveProbeResults(services.db, [result], now(services.clock));
    return { ...answer };
  });
  return ok ? `It is alive: ${endpoint} answered, ${detail}` : `It does not answer at ${endpoint}: ${detail}`;
}

async function probeAgent(context: OperationContext, services: OperationServices, subject: Subject): Promise<string> {
  const contact: AgentContact = { unreachable: false };
  const task = { type: 'ping', wait_seconds: answerWithinSeconds };
  const answer = await askAgent(context, services, 'ask:agent', subject, contact, task);
  if (!answer) return 'Its agent has sent no recent heartbeat, so no task was queued';
  if (answer.status === 'succeeded') return 'It is alive: its agent took a task and answered it';
  return answer.status === 'failed'
    ? `Its agent answered, but failed: ${answer.error?.message ?? 'no reason was given'}`
    : `Its agent sends heartbeats, but took no task within ${answerWithinSeconds} s`;
}

export function nodeProbe(services: OperationServices): OperationDefinition {
  return {
    kind: nodeProbeKind,
    revision: 1,
    async run(context) {
      const subject = await readSubjectWithParamsAllocation(services, context);
      await stage(context, services, 'ask', async () => {
        const { endpoint } = subject.node;
        const message = endpoint
          ? await probeEndpoint(context, services, subject, endpoint)
          : await probeAgent(context, services, subject);
        await context.emit({ message });
      });
      return null;
    },
  };
}
