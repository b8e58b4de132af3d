/** What the agent says about itself with every beat. A claim, not a status: what follows from it the server decides. */
import type { AgentClaim, Heartbeat } from '../contract/agent.ts';

export interface Claims {
  current(): Heartbeat;
  claim(status: AgentClaim, message?: string): void;
  /** The number of tasks at work; told with the next beat. */
  activeTasks(count: number): void;
  /** A changed status is told at once. */
  onChange(listener: () => void): void;
}

const healthOf: Record<AgentClaim, { health_score: number; error_rate: number }> = {
  starting: { health_score: 100, error_rate: 0 },
  ready: { health_score: 100, error_rate: 0 },
  degraded: { health_score: 25, error_rate: 1 },
  stopping: { health_score: 100, error_rate: 0 },
};

export function claims(bootStage: () => string | null): Claims {
  let status: AgentClaim = 'starting';
  let message: string | undefined;
  let active_tasks = 0;
  const listeners: (() => void)[] = [];
  return {
    current() {
      const boot_stage = bootStage();
      return {
        status,
        ...healthOf[status],
        active_tasks,
        ...(boot_stage === null ? {} : { boot_stage }),
        ...(message === undefined ? {} : { message: message.slice(0, 1024) }),
      };
    },
    claim(next, why) {
      const changed = next !== status || why !== message;
      status = next;
      message = why;
      if (changed) for (const listener of listeners) listener();
    },
    activeTasks(count) {
      active_tasks = count;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
