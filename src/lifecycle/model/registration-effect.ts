/**
 * The effect of a registration on a node, by its status. A registration within the rescue window
 * moves a failed node to `starting`, and its failed allocation back to `provisioning` in the same
 * transaction (`pairedWith` in transitions.ts). store/agents/apply-registration.ts carries it out.
 */
import type { NodeStatus } from './states.ts';

/**
 * - start: the machine has arrived; start-up begins
 * - rescue: the node had failed and returns within its rescue window
 * - count: the agent restarted; the node keeps its status
 * - return: the agent restarted during a release, and can still clean up and prove that it did
 * - fenced: this instance is refused for good
 * - barred: refused until an operator decides
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
  cleaning: 'return',
  quarantined: 'barred',
  retired: 'fenced',
};

export interface RegisteringNode {
  status: NodeStatus;
  /** For a failed node, the end of its rescue window. */
  deadline_at: Date | null;
}

export function effectOfRegistration({ status, deadline_at }: RegisteringNode, now: Date): RegistrationEffect {
  const effect = effects[status];
  return effect === 'rescue' && (deadline_at === null || deadline_at < now) ? 'fenced' : effect;
}
