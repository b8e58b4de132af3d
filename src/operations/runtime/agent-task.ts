/** Queues a task for a node's agent and waits, with a timeout, for the result. */
import { moment, now, secondsLater } from '../../base/clock.ts';
import { newTaskId } from '../../base/ids.ts';
import type { Json, OperationContext } from '../../engine/engine.ts';
import { isAgentFresh } from '../../store/agents/instances.ts';
import { queueTask, taskRow } from '../../store/agents/tasks.ts';
import { runOnce } from '../../store/operations/executions.ts';
import type { OperationServices } from './services.ts';
import { isMachineGone, type Subject } from './subject.ts';

export interface AgentAnswer {
  task_id: string;
  /** The parameters that the task was queued with. */
  params: Record<string, Json>;
  status: 'succeeded' | 'failed' | 'unanswered';
  result: Record<string, unknown> | null;
  error: { code: string; message: string } | null;
  signature: string | null;
}

export interface AgentContact {
  /**
   * The machine has no agent, or an earlier step of this run found the agent unreachable, so later
   * steps do not wait for an answer.
   */
  unreachable: boolean;
}

const leaseSeconds = 15;
const pollSeconds = 2;

/**
 * Returns undefined, without queueing a task, if the agent is unreachable or has sent no recent
 * heartbeat.
 */
export async function askAgent(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  contact: AgentContact,
  task: { type: string; params?: () => Record<string, Json>; wait_seconds: number },
): Promise<AgentAnswer | undefined> {
  const { db, clock } = services;
  if (contact.unreachable) return undefined;
  const queued = await context.step(`${name}:ask`, async () => {
    const at = now(clock);
    if (!(await isAgentFresh(db, subject.node_instance_id, at))) return null;
    const until = secondsLater(at, task.wait_seconds);
    return runOnce(db, context.workflow_id, `${name}:${context.attempt}`, services.executor, at, async (tx) => {
      const task_id = newTaskId(clock);
      const params = task.params?.() ?? {};
      await queueTask(
        tx,
        {
          task_id,
          node_id: subject.node.node_id,
          node_instance_id: subject.node_instance_id,
          type: task.type,
          params,
          lease_seconds: leaseSeconds,
          expires_at: until,
          correlation_id: subject.ids.correlation_id ?? null,
          allocation_id: subject.ids.allocation_id ?? null,
          workflow_id: context.workflow_id,
        },
        at,
      );
      return { task_id: task_id as string, params, until_ms: until.getTime() };
    });
  });
  if (!queued) {
    contact.unreachable = true;
    return undefined;
  }
  // After the first poll, ask the provider whether the machine still exists.
  const inspect_after_ms = queued.until_ms - (task.wait_seconds - pollSeconds) * 1000;
  const answer = await context.waitFor(
    `${name}:answer`,
    async () => {
      const row = await taskRow(db, queued.task_id);
      if (!row || (row.status !== 'succeeded' && row.status !== 'failed'))
        return clock.nowMs() > inspect_after_ms && (await isMachineGone(subject, clock))
          ? { status: 'unanswered' }
          : undefined;
      return { status: row.status, result: row.result as never, error: row.error, signature: row.result_signature };
    },
    { until: moment(queued.until_ms), poll_seconds: pollSeconds },
  );
  const unanswered = { status: 'unanswered', result: null, error: null, signature: null } as const;
  const result = {
    task_id: queued.task_id,
    params: queued.params,
    ...unanswered,
    ...(answer as Partial<AgentAnswer> | undefined),
  };
  // If the agent was only late, the next step asks it again, because this server may have been down
  // meanwhile. If the machine is gone, later steps do not ask.
  contact.unreachable = answer !== undefined && result.status === 'unanswered';
  return result;
}
