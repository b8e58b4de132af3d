/** Tasks as an agent meets them: leased signed, renewed, answered. */
import { now, secondsLater } from '../../base/clock.ts';
import { traceparentOfTask } from '../../base/trace.ts';
import { ApiProblem } from '../../contract/errors.ts';
import { isFenced, type NodeStatus } from '../../lifecycle/states.ts';
import type { AgentSession } from '../../store/agent-sessions.ts';
import { answerTask, leaseNext, renewLease, type TaskRow } from '../../store/tasks.ts';
import type { ApiServices, Handlers } from '../services.ts';
import { untilFact } from '../until-fact.ts';

const signedWire = (task: TaskRow, services: ApiServices) =>
  services.installation.signTask({
    task_id: task.task_id as string,
    type: task.type,
    params: task.params,
    node_id: task.node_id as string,
    node_instance_id: task.node_instance_id as string,
    correlation_id: task.correlation_id as string | null,
    allocation_id: task.allocation_id as string | null,
    workflow_id: task.workflow_id as string | null,
    lease_seconds: task.lease_seconds,
    traceparent: traceparentOfTask(task),
    expires_at: task.expires_at.toISOString(),
  });

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

const wakes = (kind: string) => kind === 'task.queued' || kind === 'task.requeued';

export const agentTaskHandlers: Pick<Handlers, 'agent-task-next' | 'agent-task-progress' | 'agent-task-result'> = {
  async 'agent-task-next'({ agent, query, request }, services) {
    const session = agent();
    const until = secondsLater(now(services.clock), query?.wait ?? 0);
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
      // What the node stands at may have changed while this was waiting.
      await services.sessions.renew(session);
      const task = await services.db.transaction((tx) =>
        leaseNext(tx, session.node_instance_id, at, isFenced(session.node_status)),
      );
      if (task) return { task: signedWire(task, services) };
      session.tasks_waiting = 0;
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
