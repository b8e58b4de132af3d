/** What the agent says about itself with every beat. A claim, not a status: what follows from it the server decides. */
import type { AgentClaim, Heartbeat } from '../../contract/agent/agent.ts';

export interface Claims {
  current(): Heartbeat;
  claim(status: AgentClaim, message?: string): void;
  /** While it is held the node says `starting` and why, whatever was claimed; null lets go. A goodbye is always said. */
  hold(why: string | null): void;
  isHeld(): boolean;
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
  let held: string | null = null;
  let active_tasks = 0;
  const listeners: (() => void)[] = [];
  const said = (): { status: AgentClaim; message: string | undefined } =>
    held === null || status === 'stopping' ? { status, message } : { status: 'starting', message: held };
  const change = (apply: () => void) => {
    const before = said();
    apply();
    const after = said();
    if (before.status === after.status && before.message === after.message) return;
    for (const listener of listeners) listener();
  };
  return {
    current() {
      const boot_stage = bootStage();
      const { status: claimed, message: why } = said();
      return {
        status: claimed,
        ...healthOf[claimed],
        active_tasks,
        ...(boot_stage === null ? {} : { boot_stage }),
        ...(why === undefined ? {} : { message: why.slice(0, 1024) }),
      };
    },
    claim: (next, why) =>
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
