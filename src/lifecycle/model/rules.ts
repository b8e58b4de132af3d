/** The rules that decide on nodes by themselves, as data: what each may be stopped by, and whom it speaks of. Pure. */
import { liveNodeStatuses, type NodeStatus } from './states.ts';
import type { Cause } from './transitions.ts';

export interface NodeRule {
  /** Turns a machine for the worse, so a maintenance window holds it. */
  negative: boolean;
  /**
   * What many such verdicts at once lead to: `hold` keeps the rest back, since the machine would be taken for gone or be
   * destroyed; `pause-launches` writes them, since they can be undone, and launches nothing more into the same failure.
   */
  en_masse: 'hold' | 'pause-launches' | null;
  /** Whom the share of failing machines is taken of. */
  phase: readonly NodeStatus[];
}

export const nodeRules = {
  'provision-deadline': { negative: true, en_masse: 'pause-launches', phase: ['provisioning'] },
  'start-deadline': { negative: true, en_masse: 'pause-launches', phase: ['starting'] },
  'stuck-starting': { negative: false, en_masse: null, phase: ['starting'] },
  'probe-promotes': { negative: false, en_masse: null, phase: ['starting'] },
  liveness: { negative: true, en_masse: 'hold', phase: ['ready', 'degraded'] },
  'offline-deadline': { negative: true, en_masse: 'pause-launches', phase: ['offline'] },
  // Of all that live: a pool in which everything failed is the very case in which nothing should be destroyed in haste.
  'rescue-over': { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  // A provider that shows nothing of many machines at once is more likely at fault itself.
  drift: { negative: true, en_masse: 'hold', phase: liveNodeStatuses },
  'drain-deadline': { negative: true, en_masse: null, phase: ['draining'] },
  'clean-deadline': { negative: true, en_masse: null, phase: ['cleaning'] },
} as const satisfies Partial<Record<Cause, NodeRule>>;

const rulesThat = (effect: NodeRule['en_masse']): NodeRuleName[] =>
  (Object.keys(nodeRules) as NodeRuleName[]).filter((name) => nodeRules[name].en_masse === effect);

export type NodeRuleName = keyof typeof nodeRules;

/** Of which too many at once are kept back, and of which too many pause new launches. */
export const holdingRules = rulesThat('hold');
export const pausingRules = rulesThat('pause-launches');

export const isNodeRule = (name: string): name is NodeRuleName => Object.hasOwn(nodeRules, name);

/** Those that were decided on lately have left the phase they are a share of, and count among it still. */
export const recentBesidesPhase = (phase: readonly NodeStatus[], recent: number): number =>
  phase.includes('cleaning') ? 0 : recent;

/** Rules that finish what a person asked for go on in an observed pool as well; else a release would stand still there. */
const finishing: ReadonlySet<Cause> = new Set<Cause>([
  'node-ready',
  'node-failed',
  'node-lost',
  'rescue',
  'clean-deadline',
  'drain-deadline',
]);

/** Whether a rule only says what it would have done, in a pool that is merely observed. */
export const isObserveOnly = (cause: Cause, trigger: string, mode: 'enforce' | 'observe' | undefined): boolean =>
  mode === 'observe' && trigger === 'rule' && !finishing.has(cause);
