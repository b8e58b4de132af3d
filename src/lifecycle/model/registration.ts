/** What a registration does to a node that stands at each status. Data, and the one question of time in it. Pure. */
import type { NodeStatus } from './states.ts';

/**
 * - start: the machine is here; start-up begins
 * - rescue: it was given up, and may come back while its window is open
 * - count: an agent that restarted; nothing changes
 * - return: an agent that restarted while its machine is taken down, and may still prove what it cleaned
 * - fenced: nothing this instance says counts any more
 * - barred: an operator decides first
 */
export type RegistrationEffect = 'start' | 'rescue' | 'count' | 'return' | 'fenced' | 'barred';

const effects: Record<NodeStatus, RegistrationEffect> = {
  provisioning: 'start',
  starting: 'count',
  ready: 'count',
  degraded: 'count',
  offline: 'count',
  failed: 'rescue',
  draining: 'count',
  // Its release waits for it: an agent that restarted can still clean up and prove it.
  cleaning: 'return',
  quarantined: 'barred',
  retired: 'fenced',
};

export interface RegisteringNode {
  status: NodeStatus;
  /** Of a failed node, the end of its rescue window. */
  deadline_at: Date | null;
}

export function effectOfRegistration({ status, deadline_at }: RegisteringNode, now: Date): RegistrationEffect {
  const effect = effects[status];
  return effect === 'rescue' && (deadline_at === null || deadline_at < now) ? 'fenced' : effect;
}
