/** Tasks as an agent meets them: leased signed, renewed, answered. */
import { now, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { isFenced, type NodeStatus } from '../../lifecycle/model/states.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { answerTask, renewLease } from '../../store/agents/tasks.ts';
import type { Handlers } from '../services.ts';
import { untilFact } from '../stream/wait-for-fact.ts';
import { leaseSigned } from '../task-delivery.ts';

/** Where the work of taking it down is still to come. */
const takenDown: readonly NodeStatus[] = ['draining', 'cleaning'];

/**
 * Every fenced node is handed what takes it down and proves it clean, also one that was set aside meanwhile; so it is told that
 * all else is barred only when it has waited for that in vain.
 */
function refuseBarred({ node_status }: AgentSession): void {
  if (isFenced(node_status) && !takenDown.includes(node_status))
    throw new ApiProblem('node_fenced', `The node is ${node_status}; it gets no tasks but those of its release.`);
}

const waiting: readonly string[] = ['task.queued', 'task.requeued'];
/** An earlier poll of the same agent, which the agent gave up, may have been handed the task while this one waits. */
const handed: readonly string[] = ['task.leased', 'task.redelivered'];

export const agentTaskHandlers: Pick<Handlers, 'agent-task-next' | 'agent-task-progress' | 'agent-task-result'> = {
  async 'agent-task-next'({ agent, query, request }, services) {
    const session = agent();
    const polled_at = now(services.clock);
    const idle = query?.idle ?? false;
    const until = secondsLater(polled_at, query?.wait ?? 0);
    const wakes = (kind: string) => waiting.includes(kind) || (idle && handed.includes(kind));
    for (;;) {
      const at = now(services.clock);
      // The wait is set up before the look, so that a task that comes in between is not slept through.
      const left = until.getTime() - at.getTime();
      const next =
        left > 0
          ? untilFact(
              services,
              request,
              left,
              (fact) => wakes(fact.kind) && fact.node_instance_id === session.node_instance_id,
            )
          : undefined;
      // A task that is handed to a closed connection would wait for its lease to end.
      const task = request.raw.destroyed ? undefined : await leaseSigned(session, services, { polled_at, idle });
      if (task) return { task };
      if (!next || request.raw.destroyed) {
        refuseBarred(session);
        return { task: null };
      }
      await next;
    }
  },
  async 'agent-task-progress'({ agent, params, body }, services) {
    const { node_instance_id } = agent();
    const task = await services.db.transaction((tx) =>
      renewLease(tx, params.id, node_instance_id, body, now(services.clock)),
    );
    if (!task) throw new ApiProblem('task_lease_lost');
    return { lease_seconds: task.lease_seconds };
  },
  async 'agent-task-result'({ agent, params, body }, services) {
    const { node_instance_id } = agent();
    const outcome = await services.db.transaction((tx) =>
      answerTask(tx, params.id, node_instance_id, body, now(services.clock)),
    );
    if (outcome === 'unknown') throw new ApiProblem('task_not_found');
    if (outcome === 'lease_lost') throw new ApiProblem('task_lease_lost');
    return { ok: true };
  },
};
