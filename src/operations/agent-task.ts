/** Asks a node's agent to do something and waits, within bounds, for its answer. */
import { moment, now, secondsLater } from '../base/clock.ts';
import { newTaskId } from '../base/ids.ts';
import type { OperationContext } from '../engine/engine.ts';
import { once } from '../store/executions.ts';
import { isAgentFresh } from '../store/instances.ts';
import { queueTask, taskRow } from '../store/tasks.ts';
import type { OperationServices } from './services.ts';
import type { Subject } from './subject.ts';

export interface AgentAnswer {
  task_id: string;
  status: 'succeeded' | 'failed' | 'unanswered';
  result: Record<string, unknown> | null;
  error: { code: string; message: string } | null;
  signature: string | null;
}

const leaseSeconds = 15;
const pollSeconds = 2;

/** Undefined when the agent has not been heard lately: then nobody would answer, and the caller goes on without it. */
export async function askAgent(
  context: OperationContext,
  services: OperationServices,
  name: string,
  subject: Subject,
  task: { type: string; params: Record<string, unknown>; wait_seconds: number },
): Promise<AgentAnswer | undefined> {
  const { db, clock } = services;
  const queued = await context.step(`${name}:ask`, async () => {
    const at = now(clock);
    if (!(await isAgentFresh(db, subject.node_instance_id, at))) return null;
    const until = secondsLater(at, task.wait_seconds);
    return once(db, context.workflow_id, `${name}:${context.attempt}`, services.executor, at, async (tx) => {
      const task_id = newTaskId(clock);
      await queueTask(
        tx,
        {
          task_id,
          node_id: subject.node.node_id,
          node_instance_id: subject.node_instance_id,
          type: task.type,
          params: task.params,
          lease_seconds: leaseSeconds,
          expires_at: until,
          correlation_id: subject.ids.correlation_id ?? null,
          allocation_id: subject.ids.allocation_id ?? null,
          workflow_id: context.workflow_id,
        },
        at,
      );
      return { task_id: task_id as string, until_ms: until.getTime() };
    });
  });
  if (!queued) return undefined;
  const answer = await context.waitFor(
    `${name}:answer`,
    async () => {
      const row = await taskRow(db, queued.task_id);
      if (!row || (row.status !== 'succeeded' && row.status !== 'failed')) return undefined;
      return { status: row.status, result: row.result as never, error: row.error, signature: row.result_signature };
    },
    { until: moment(queued.until_ms), poll_seconds: pollSeconds },
  );
  if (!answer) return { task_id: queued.task_id, status: 'unanswered', result: null, error: null, signature: null };
  return { task_id: queued.task_id, ...(answer as unknown as Omit<AgentAnswer, 'task_id'>) };
}
