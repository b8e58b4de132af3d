/**
 * The agent's report about itself, sent with every heartbeat. It is no status: the server decides
 * what follows.
 */
import type { AgentClaim, Heartbeat } from '../../contract/agent/agent.ts';

export interface SelfReport {
  current(): Heartbeat;
  set(status: AgentClaim, message?: string): void;
  /**
   * While held, the node reports `starting` and the reason, whatever was set; null ends the hold.
   * `stopping` is always reported.
   */
  hold(why: string | null): void;
  isHeld(): boolean;
  /** The number of running tasks; sent with the next heartbeat. */
  activeTasks(count: number): void;
  /** Called when the reported status changes, which is sent at once. */
  onChange(listener: () => void): void;
}

const healthOf: Record<AgentClaim, { health_score: number; error_rate: number }> = {
  starting: { health_score: 100, error_rate: 0 },
  ready: { health_score: 100, error_rate: 0 },
  degraded: { health_score: 25, error_rate: 1 },
  stopping: { health_score: 100, error_rate: 0 },
};

export function createSelfReport(bootStage: () => string | null): SelfReport {
  let status: AgentClaim = 'starting';
  let message: string | undefined;
  let held: string | null = null;
  let active_tasks = 0;
  const listeners: (() => void)[] = [];
  const effective = (): { status: AgentClaim; message: string | undefined } =>
    held === null || status === 'stopping' ? { status, message } : { status: 'starting', message: held };
  const change = (apply: () => void) => {
    const before = effective();
    apply();
    const after = effective();
    if (before.status === after.status && before.message === after.message) return;
    for (const listener of listeners) listener();
  };
  return {
    current() {
      const boot_stage = bootStage();
      const { status: reported, message: why } = effective();
      return {
        status: reported,
        ...healthOf[reported],
        active_tasks,
        ...(boot_stage === null ? {} : { boot_stage }),
        ...(why === undefined ? {} : { message: why.slice(0, 1024) }),
      };
    },
    set: (next, why) =>
      change(() => {
        status = next;
        message = why;
      }),
    hold: (why) =>
      change(() => {
        held = why;
      }),
    isHeld: () => held !== null,
    activeTasks(count) {
      active_tasks = count;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
