/**
 * The automatic rules on nodes: whether maintenance windows and the brake stop them, and which
 * nodes they apply to.
 */
import { liveNodeStatuses, type NodeStatus } from './states.ts';
import type { Cause } from './transitions.ts';

export interface NodeRule {
  /** Moves a machine to a worse status, so a maintenance window holds it. */
  negative: boolean;
  /**
   * The reaction to many verdicts at once. `hold` keeps them back, because they declare machines
   * gone or destroy them. `pause-launches` writes them, because they can be undone, but launches no
   * more machines into the same failure.
   */
  en_masse: 'hold' | 'pause-launches' | null;
  /** The statuses of the population that the brake counts failures against. */
  phase: readonly NodeStatus[];
}

export const nodeRules = {
  'provision-deadline': { negative: true, en_masse: 'pause-launches', phase: ['provisioning'] },
  'start-deadline': { negative: true, en_masse: 'pause-launches', phase: ['starting'] },
  'stuck-starting': { negative: false, en_masse: null, phase: ['starting'] },
  'probe-promotes': { negative: false, en_masse: null, phase: ['starting'] },
  liveness: { negative: true, en_masse: 'hold', phase: ['ready', 'degraded'] },
  'offline-deadline': { negative: true, en_masse: 'pause-launches', phase: ['offline'] },
  // All live nodes: when a whole pool has failed, nothing should be destroyed in haste.
  'rescue-over': { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  // If a provider stops showing many machines at once, the provider is the likelier fault.
  drift: { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  'drain-deadline': { negative: true, en_masse: null, phase: ['draining'] },
  'clean-deadline': { negative: true, en_masse: null, phase: ['cleaning'] },
} as const satisfies Partial<Record<Cause, NodeRule>>;

const rulesThat = (effect: NodeRule['en_masse']): NodeRuleName[] =>
  (Object.keys(nodeRules) as NodeRuleName[]).filter((name) => nodeRules[name].en_masse === effect);

export type NodeRuleName = keyof typeof nodeRules;

/** Rules whose verdicts the brake holds, and rules that pause launches instead. */
export const holdingRules = rulesThat('hold');
export const pausingRules = rulesThat('pause-launches');

export const isNodeRule = (name: string): name is NodeRuleName => Object.hasOwn(nodeRules, name);

/**
 * Nodes with a recent verdict have already left the phase; they still count towards its population.
 * Phases that include `cleaning` contain them anyway.
 */
export const recentBesidesPhase = (phase: readonly NodeStatus[], recent: number): number =>
  phase.includes('cleaning') ? 0 : recent;

/**
 * These rules complete what a person requested, so they also run in an observe-only pool. Without
 * them a release there would never end.
 */
const finishing: ReadonlySet<Cause> = new Set<Cause>([
  'node-ready',
  'node-failed',
  'node-lost',
  'rescue',
  'clean-deadline',
  'drain-deadline',
]);

/** Whether a rule only records its verdict, because the pool is observe-only. */
export const isObserveOnly = (cause: Cause, trigger: string, mode: 'enforce' | 'observe' | undefined): boolean =>
  mode === 'observe' && trigger === 'rule' && !finishing.has(cause);
