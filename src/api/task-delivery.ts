/** Leases and signs tasks for agents, both for the long poll and for the agent stream. */
import { now } from '../base/clock.ts';
import { traceparentOfTask } from '../base/telemetry/trace.ts';
import type { SignedTask } from '../contract/agent/agent.ts';
import { isFenced } from '../lifecycle/model/states.ts';
import type { AgentSession } from '../store/agents/sessions/agent-sessions.ts';
import { leaseNext, type Poll, type TaskRow } from '../store/agents/tasks.ts';
import type { ApiServices } from './services.ts';

const signedWire = (task: TaskRow, services: ApiServices): SignedTask =>
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

/**
 * Returns null if no task waits that the node may have. Renews the session first, since the node's
 * status may have changed.
 */
export async function leaseSigned(
  session: AgentSession,
  services: ApiServices,
  poll: Poll,
): Promise<SignedTask | null> {
  await services.sessions.renew(session);
  const task = await services.db.transaction((tx) =>
    leaseNext(tx, session.node_instance_id, now(services.clock), isFenced(session.node_status), poll),
  );
  if (task) return signedWire(task, services);
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
        const task = poll && (await leaseSigned(await parts.session(), parts.services, poll));
        if (task) {
          // The request is served. If the agent drops this task, its next idle request gets it
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
