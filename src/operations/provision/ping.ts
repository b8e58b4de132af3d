/** Proves with a ping that a task reaches the machine and its agent's signed answer reaches us. */
import type { OperationContext } from '../../engine/engine.ts';
import { StepFailed } from '../../engine/engine.ts';
import { hasAgent } from '../../store/agents/instances.ts';
import { isSignedByAgent } from '../release/proof.ts';
import { type AgentAnswer, type AgentContact, askAgent } from '../runtime/agent-task.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type PlanStep, recordFact, stage } from '../runtime/stage.ts';
import { readOperationSubject } from '../runtime/subject.ts';

export const pingPlan: PlanStep[] = [
  { name: 'ping', label: 'Pinging its agent', usual_seconds: 1, within_seconds: 300 },
];

const answersWithinSeconds = 20;
const maxTries = 3;
/**
 * The pause between tries. A machine that just became ready looks silent until its heartbeat is
 * stored, a moment later.
 */
const retrySeconds = 1;

const pingFailure = (code: string, message: string, tries: number) =>
  new StepFailed({ step: 'ping', code, owner_layer: 'node', message, tries });

/** `answer` is undefined if no task was queued, because the agent sent no recent heartbeat. */
export function unansweredMessage(answer: AgentAnswer | undefined, contact: AgentContact): string {
  if (!answer) return 'it sends no heartbeats, so no ping was sent';
  return contact.unreachable
    ? 'its provider does not show it any more'
    : 'it sends heartbeats, but takes no tasks, or their answers do not arrive';
}

async function ping(context: OperationContext, services: OperationServices): Promise<void> {
  const subject = await readOperationSubject(services, context);
  if (!(await hasAgent(services.db, subject.node_instance_id))) {
    const summary = 'it has no Slipway agent, so no ping was sent';
    return recordFact(context, services, 'ping:none', subject, 'node', 'ping.skipped', summary, {});
  }
  for (let tries = 1; ; tries++) {
    const contact = { unreachable: false };
    const task = { type: 'ping', wait_seconds: answersWithinSeconds };
    const answer = await askAgent(context, services, `ping:${tries}`, subject, contact, task);
    if (answer?.status === 'succeeded' && isSignedByAgent(subject, answer)) {
      const { task_id, result } = answer;
      const summary = 'it answered a ping with a valid signature';
      return recordFact(context, services, 'ping:told', subject, 'node', 'ping.answered', summary, { task_id, result });
    }
    if (answer?.status === 'succeeded')
      throw pingFailure(
        'answer_unsigned',
        "it answered a ping, but the answer is not signed with its agent's key",
        tries,
      );
    if (answer?.status === 'failed')
      throw pingFailure(
        answer.error?.code ?? 'ping_failed',
        `it refused a ping: ${answer.error?.message ?? 'no reason given'}`,
        tries,
      );
    if (tries >= maxTries) throw pingFailure('ping_unanswered', unansweredMessage(answer, contact), tries);
    await context.sleep(retrySeconds);
  }
}

/**
 * The stage of `pingPlan`. A failed ping fails the operation and does not change the node's status.
 */
export const proveByPing = (context: OperationContext, services: OperationServices): Promise<void> =>
  stage(context, services, 'ping', () => ping(context, services));
