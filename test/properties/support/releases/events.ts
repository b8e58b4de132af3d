/** What people, machines and time do in a history, and how it comes to rest once nobody does anything any more. */
import { nodeActionNames } from '../../../../src/lifecycle/actions/actions.ts';
import { allocationActionNames } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { Dice } from '../random.ts';
import type { History, ModelAllocation, ModelNode, WorkKind } from './history.ts';
import { advance, fail, retireProvenGone, tasksOf } from './operations.ts';

type OnNode = (history: History, node: ModelNode, dice: Dice) => void;
type OnAllocation = (history: History, allocation: ModelAllocation) => void;

const begin = (kind: WorkKind) => ({ kind, stage: 0, proof: null });
const bind = (node: ModelNode, kind: WorkKind) => {
  node.work = begin(kind);
  node.bound = node.work;
};
const nothing = () => {};

const takeDown =
  (kind: 'retire' | 'reimage'): OnNode =>
  (history, node) => {
    if (history.moveNode(node, 'cleaning', kind)) bind(node, kind);
  };

/** Every action on a node that exists; one that is added must be added here. */
export const nodeDeeds: Record<(typeof nodeActionNames)[number], OnNode> = {
  quarantine(history, node) {
    if (!history.moveNode(node, 'quarantined', 'quarantine')) return;
    // What takes it down is cancelled; a release goes on.
    if (node.work?.kind === 'retire' || node.work?.kind === 'reimage') node.work = null;
  },
  reactivate: (history, node) => {
    history.moveNode(node, 'starting', 'reactivate');
  },
  reimage: takeDown('reimage'),
  retire: takeDown('retire'),
  're-enroll': (_, node) => {
    bind(node, 're-enroll');
    node.fenced = true;
  },
  drain(history, node, dice) {
    if (history.moveNode(node, 'draining', 'drain')) node.drain_then = dice.pick(['hold', 'retire'] as const);
  },
  undrain: (history, node) => {
    history.moveNode(node, 'ready', 'undrain');
  },
  retry: (history, node) => onHolder(history, node, 'retry'),
  'retry-release': (history, node) => onHolder(history, node, 'retry-release'),
  'force-release': (history, node) => onHolder(history, node, 'force-release'),
  ...{ 'extend-deadline': nothing, 'accept-key': nothing, 'apply-held-verdict': nothing, probe: nothing },
  'collect-diagnostics': nothing,
};

const beginRelease: OnAllocation = (history, allocation) => {
  if (history.moveAllocation(allocation, 'releasing', 'release')) allocation.work = begin('release');
};

export const allocationDeeds: Record<(typeof allocationActionNames)[number], OnAllocation> = {
  release: beginRelease,
  'retry-release': beginRelease,
  'force-release': (_, allocation) => {
    allocation.work = begin('force');
  },
  retry: (_, allocation) => {
    allocation.work = { ...begin('provision'), retry: true };
  },
  ...{ 'extend-deadline': nothing, 'accept-key': nothing, 'apply-held-verdict': nothing, probe: nothing },
  'collect-diagnostics': nothing,
};

function onHolder(history: History, node: ModelNode, action: 'retry' | 'retry-release' | 'force-release'): void {
  const holder = history.holderOf(node);
  if (holder && history.isOpenOnAllocation(action, holder)) allocationDeeds[action](history, holder);
}

/** A tenant asks for a machine, unless one has it or waits for it. */
export function ask(history: History): boolean {
  const last = history.allocation;
  if (last && last.status !== 'released' && !(last.status === 'failed' && last.over)) return false;
  history.addAllocation().work = begin('provision');
  return true;
}

/** A deadline passes. */
export function expire(history: History, node: ModelNode): boolean {
  const { status } = node;
  if (status === 'provisioning') return history.moveNode(node, 'failed', 'provision-deadline');
  if (status === 'starting') return history.moveNode(node, 'failed', 'start-deadline');
  if (status === 'offline') return history.moveNode(node, 'failed', 'offline-deadline');
  if (status === 'failed') {
    const holder = history.holderOf(node);
    if (holder?.status === 'failed') holder.over = true;
    if (!history.moveNode(node, 'cleaning', 'rescue-over')) return false;
    bind(node, 'retire');
    return true;
  }
  if (status === 'draining') {
    if (node.drain_then !== 'retire') return history.moveNode(node, 'quarantined', 'drain-deadline');
    if (!history.moveNode(node, 'cleaning', 'drain-deadline')) return false;
    bind(node, 'retire');
    return true;
  }
  if (status === 'cleaning' && !history.isOwned(node)) {
    node.work = null;
    return history.moveNode(node, 'quarantined', 'clean-deadline');
  }
  return false;
}

export function expireAllocation(history: History, allocation: ModelAllocation): boolean {
  const { status } = allocation;
  if (status === 'releasing') {
    allocation.work = null;
    return history.moveAllocation(allocation, 'release_failed', 'release-deadline');
  }
  if (status === 'release_failed') {
    if (allocation.work) return false;
    if (history.moveAllocation(allocation, 'releasing', 'release-retry')) allocation.work = begin('release');
    return true;
  }
  if (status === 'requested') {
    allocation.work = null;
    return history.moveAllocation(allocation, 'failed', 'queue-deadline');
  }
  if (status === 'failed' && allocation.work?.stage === 0) {
    // Another try waits for room no longer than its first step may take.
    allocation.work = null;
    return true;
  }
  if (status === 'failed' && !allocation.over && !allocation.work) {
    const node = history.nodeOf(allocation);
    // Its window is the machine's while that may still come back.
    if (node?.status === 'failed') return false;
    allocation.over = true;
    return true;
  }
  return false;
}

/** What rules find by looking. */
export function look(history: History): void {
  for (const node of history.nodes) {
    if (node.residue && node.machine !== 'up') Object.assign(node, { residue: false, proven: true });
    retireProvenGone(history, node);
  }
}

const speak: OnNode = (history, node) => {
  if (node.machine !== 'up' || node.fenced) return;
  if (node.status === 'starting') history.moveNode(node, 'ready', 'claim-ready');
  else if (node.status === 'offline') history.moveNode(node, 'ready', 'heartbeat-returned');
  else if (node.status === 'failed') history.moveNode(node, 'starting', 'late-registration');
};

const operator: OnNode = (history, node, dice) => {
  const action = dice.pick(nodeActionNames);
  if (!history.isOpenOnNode(action, node)) return;
  history.story.push(`act ${action}`);
  nodeDeeds[action](history, node, dice);
};

const tenant = (history: History, dice: Dice) => {
  const { allocation } = history;
  if (!allocation) return;
  // Releases are what this is about.
  const action = dice.chance(0.5) ? 'release' : dice.pick(allocationActionNames);
  if (!history.isOpenOnAllocation(action, allocation)) return;
  history.story.push(`allocation ${action}`);
  allocationDeeds[action](history, allocation);
};

/** One thing happens. */
export function happen(history: History, dice: Dice): void {
  const { node } = history;
  const thrown = dice.next();
  const tasks = tasksOf(history);
  if (thrown < 0.5 && tasks.length > 0) {
    const task = dice.pick(tasks);
    history.story.push(`${task.work.kind} stage ${task.work.stage}`);
    advance(history, task, dice);
  } else if (thrown < 0.55 && tasks.length > 0) {
    const cancelled = dice.chance(0.5);
    history.story.push(cancelled ? 'cancel' : 'a step fails');
    fail(history, dice.pick(tasks), cancelled);
  } else if (thrown < 0.75 && node) operator(history, node, dice);
  else if (thrown < 0.85) tenant(history, dice);
  else if (thrown < 0.88 && node) speak(history, node, dice);
  else if (thrown < 0.9 && node && ['ready', 'degraded'].includes(node.status))
    history.moveNode(node, 'offline', 'liveness');
  else if (thrown < 0.92 && node?.machine === 'up') node.machine = 'gone';
  else if (thrown < 0.96 && node) {
    history.story.push('a deadline of the node');
    expire(history, node);
  } else if (history.allocation && dice.chance(0.5)) {
    history.story.push('a deadline of the allocation');
    expireAllocation(history, history.allocation);
  } else if (dice.chance(0.5)) look(history);
  else ask(history);
}

/** What serves is supervised: a machine that is not there is silent. */
const fallSilent = (history: History, node: ModelNode): boolean =>
  node.status === 'ready' && node.machine !== 'up' && history.moveNode(node, 'offline', 'liveness');

/** More than the longest way to rest takes. */
const mostRounds = 200;

/** Nobody does anything any more: operations and rules end what is under way. */
export function rest(history: History): void {
  for (let round = 0; round < mostRounds; round++) {
    look(history);
    if (tasksOf(history).filter((task) => advance(history, task, null)).length > 0) continue;
    const nodes = history.nodes.filter((node) => fallSilent(history, node) || expire(history, node));
    const allocations = history.allocations.filter((allocation) => expireAllocation(history, allocation));
    if (nodes.length + allocations.length === 0) return;
  }
}
