/** Leases and signs tasks for agents, both for the long poll and for the agent stream. */
import { now } from '../base/clock.ts';
import { traceparentOfTask } from '../base/telemetry/trace.ts';
import type { SignedTask } from '../contract/agent/agent.ts';
import { isFenced } from '../lifecycle/model/states.ts';
import type { AgentSession } from '../store/agents/sessions/agent-sessions.ts';
import { leaseNext, type Poll, type TaskFilter, type TaskRow } from '../store/agents/tasks.ts';
import type { ApiServices } from './services.ts';

const signTaskRow = (task: TaskRow, services: ApiServices): SignedTask =>
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

function taskFilter({ node_status }: AgentSession, { restoration }: ApiServices): TaskFilter {
  // After a restore, a queued task may belong to a tenant that has left the machine.
  if (restoration.isObserving()) return 'pings';
  return isFenced(node_status) ? 'release' : 'all';
}

/**
 * Leases the next task that the node may have; null if none waits. Renews the session first, since
 * the node's status may have changed.
 */
export async function leaseSignedTask(
  session: AgentSession,
  services: ApiServices,
  poll: Poll,
): Promise<SignedTask | null> {
  await services.sessions.renew(session);
  const task = await services.db.transaction((tx) =>
    leaseNext(tx, session.node_instance_id, now(services.clock), taskFilter(session, services), poll),
  );
  if (task) return signTaskRow(task, services);
  session.tasks_waiting = 0;
  return null;
}

export interface TaskDelivery {
  /** The agent can take one task. A repeated request still asks for only one. */
  request(idle: boolean): void;
  /** Call this when a task may have been queued. */
  check(): void;
}

export function deliverTasks(parts: {
  services: ApiServices;
  session(): Promise<AgentSession>;
  deliver(task: SignedTask): void;
  onError(error: unknown): void;
}): TaskDelivery {
  let requestedPoll: Poll | null = null;
  let isChecking = false;
  let mustRepeat = false;

  const checkUntilQuiet = async () => {
    isChecking = true;
    try {
      do {
        mustRepeat = false;
        const poll = requestedPoll;
        const task = poll && (await leaseSignedTask(await parts.session(), parts.services, poll));
        if (task) {
          // The request is served. If the agent drops the task, its next idle request gets the task
          // again.
          requestedPoll = null;
          parts.deliver(task);
        }
      } while (requestedPoll && mustRepeat);
    } catch (error) {
      parts.onError(error);
    } finally {
      isChecking = false;
    }
  };
  const check = () => {
    mustRepeat = true;
    if (requestedPoll && !isChecking) void checkUntilQuiet();
  };
  return {
    request(idle) {
      requestedPoll = { polled_at: now(parts.services.clock), idle };
      check();
    },
    check,
  };
}
