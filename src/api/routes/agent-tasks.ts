/** Handles an agent's calls about its tasks: lease, renew and answer. */
import { now, secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { isFenced, type NodeStatus } from '../../lifecycle/model/states.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { answerTask, renewTaskLease } from '../../store/agents/tasks.ts';
import type { Handlers } from '../services.ts';
import { leaseSignedTask } from '../task-delivery.ts';

/** In these statuses, a node without a task is not refused: a teardown task may follow. */
const teardownStatuses: readonly NodeStatus[] = ['draining', 'cleaning'];

/**
 * A fenced node still gets the tasks of its release and cleanup, even while it is quarantined, so
 * it is refused only after it has waited and got no task.
 */
function refuseFenced({ node_status }: AgentSession): void {
  if (isFenced(node_status) && !teardownStatuses.includes(node_status))
    throw new ApiProblem('node_fenced', `The node is ${node_status}; it only gets tasks of its release.`);
}

const queuedKinds: readonly string[] = ['task.queued', 'task.requeued'];
/** An abandoned earlier poll of the same agent may get the task while this one waits. */
const deliveredKinds: readonly string[] = ['task.leased', 'task.redelivered'];

export const agentTaskHandlers: Pick<Handlers, 'agent-task-next' | 'agent-task-progress' | 'agent-task-result'> = {
  async 'agent-task-next'({ agent, query, request, reply }, services) {
    const session = agent();
    const polled_at = now(services.clock);
    const idle = query?.idle ?? false;
    const until = secondsLater(polled_at, query?.wait ?? 0);
    const isAboutTasks = (kind: string) => queuedKinds.includes(kind) || (idle && deliveredKinds.includes(kind));
    for (;;) {
      const at = now(services.clock);
      // Subscribe before leasing, so that a task queued in between is not missed.
      const remainingMs = until.getTime() - at.getTime();
      const nextFact =
        remainingMs > 0
          ? services.longPolls.waitForFact(
              reply.raw,
              remainingMs,
              (fact) => isAboutTasks(fact.kind) && fact.node_instance_id === session.node_instance_id,
            )
          : undefined;
      // A task sent to a closed connection would be stuck until its lease ends.
      const task = request.raw.destroyed ? undefined : await leaseSignedTask(session, services, { polled_at, idle });
      if (task) return { task };
      if (!nextFact || request.raw.destroyed) {
        refuseFenced(session);
        return { task: null };
      }
      await nextFact;
      // The next poll, at another replica, gets the task.
      if (services.longPolls.areClosing()) return { task: null };
    }
  },
  async 'agent-task-progress'({ agent, params, body }, services) {
    const { node_instance_id } = agent();
    const task = await services.db.transaction((tx) =>
      renewTaskLease(tx, params.id, node_instance_id, body, now(services.clock)),
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
