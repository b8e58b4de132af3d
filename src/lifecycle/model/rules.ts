/**
 * The automatic rules on nodes: whether maintenance windows hold them, how the brake treats them,
 * and which nodes the brake counts.
 */
import { liveNodeStatuses, type NodeStatus } from './states.ts';
import type { Cause } from './transitions.ts';

export interface NodeRule {
  /** The rule moves machines to a worse status, so a maintenance window holds its verdicts. */
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
  // Counted against all live nodes. Counted against failed nodes, a few of them in a large pool
  // would always be a mass failure.
  'rescue-over': { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  // If a provider stops showing many machines at once, the provider is more likely at fault.
  drift: { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  'drain-deadline': { negative: true, en_masse: null, phase: ['draining'] },
  'clean-deadline': { negative: true, en_masse: null, phase: ['cleaning'] },
} as const satisfies Partial<Record<Cause, NodeRule>>;

const rulesWithReaction = (effect: NodeRule['en_masse']): NodeRuleName[] =>
  (Object.keys(nodeRules) as NodeRuleName[]).filter((name) => nodeRules[name].en_masse === effect);

export type NodeRuleName = keyof typeof nodeRules;

/** Rules whose verdicts the brake holds, and rules that pause launches instead. */
export const holdingRules = rulesWithReaction('hold');
export const pausingRules = rulesWithReaction('pause-launches');

export const isNodeRule = (name: string): name is NodeRuleName => Object.hasOwn(nodeRules, name);

/**
 * How many nodes with a recent verdict to add to the population of a phase. They have left the
 * phase but still count, unless the phase includes `cleaning` and so contains them anyway.
 */
export const recentBesidesPhase = (phase: readonly NodeStatus[], recent: number): number =>
  phase.includes('cleaning') ? 0 : recent;

/**
 * Causes that follow another change, or complete what a person requested. They apply in an
 * observe-only pool too; otherwise a release there would never end.
 */
const alwaysEnforced: ReadonlySet<Cause> = new Set<Cause>([
  'node-ready',
  'node-failed',
  'node-lost',
  'rescue',
  'clean-deadline',
  'drain-deadline',
]);

/** Whether a rule only records its verdict, because the pool is observe-only. */
export const isObserveOnly = (cause: Cause, trigger: string, mode: 'enforce' | 'observe' | undefined): boolean =>
  mode === 'observe' && trigger === 'rule' && !alwaysEnforced.has(cause);
