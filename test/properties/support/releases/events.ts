/**
 * Random events of people, machines and time in a history, and how it settles without further
 * events.
 */
import { nodeActionNames } from '../../../../src/lifecycle/actions/actions.ts';
import { allocationActionNames } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { Random } from '../random.ts';
import type { History, ModelAllocation, ModelNode, WorkKind } from './history.ts';
import { advance, fail, retireProvenGone, tasksOf } from './operations.ts';

type OnNode = (history: History, node: ModelNode, random: Random) => void;
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

/** The effect of every action on a node; a new action must be added here. */
export const nodeEffects: Record<(typeof nodeActionNames)[number], OnNode> = {
  quarantine(history, node) {
    if (!history.moveNode(node, 'quarantined', 'quarantine')) return;
    // A teardown is cancelled; a release continues.
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
  drain(history, node, random) {
    if (history.moveNode(node, 'draining', 'drain')) node.drain_then = random.pick(['hold', 'retire'] as const);
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

export const allocationEffects: Record<(typeof allocationActionNames)[number], OnAllocation> = {
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
  if (holder && history.isOpenOnAllocation(action, holder)) allocationEffects[action](history, holder);
}

/** Requests a machine, unless an allocation has or waits for it. */
export function requestMachine(history: History): boolean {
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
    // A retry waits for capacity no longer than its first step may take.
    allocation.work = null;
    return true;
  }
  if (status === 'failed' && !allocation.over && !allocation.work) {
    const node = history.nodeOf(allocation);
    // Its rescue window is that of the node while the node may still come back.
    if (node?.status === 'failed') return false;
    allocation.over = true;
    return true;
  }
  return false;
}

/** Rules that inspect machines. */
export function inspect(history: History): void {
  for (const node of history.nodes) {
    if (node.residue && node.machine !== 'up') Object.assign(node, { residue: false, proven: true });
    retireProvenGone(history, node);
  }
}

const beat: OnNode = (history, node) => {
  if (node.machine !== 'up' || node.fenced) return;
  if (node.status === 'starting') history.moveNode(node, 'ready', 'claim-ready');
  else if (node.status === 'offline') history.moveNode(node, 'ready', 'heartbeat-returned');
  else if (node.status === 'failed') history.moveNode(node, 'starting', 'late-registration');
};

const operator: OnNode = (history, node, random) => {
  const action = random.pick(nodeActionNames);
  if (!history.isOpenOnNode(action, node)) return;
  history.log.push(`act ${action}`);
  nodeEffects[action](history, node, random);
};

const tenant = (history: History, random: Random) => {
  const { allocation } = history;
  if (!allocation) return;
  // Mostly releases, which these histories are about.
  const action = random.chance(0.5) ? 'release' : random.pick(allocationActionNames);
  if (!history.isOpenOnAllocation(action, allocation)) return;
  history.log.push(`allocation ${action}`);
  allocationEffects[action](history, allocation);
};

/** Applies one random event. */
export function randomEvent(history: History, random: Random): void {
  const { node } = history;
  const draw = random.next();
  const tasks = tasksOf(history);
  if (draw < 0.5 && tasks.length > 0) {
    const task = random.pick(tasks);
    history.log.push(`${task.work.kind} stage ${task.work.stage}`);
    advance(history, task, random);
  } else if (draw < 0.55 && tasks.length > 0) {
    const cancelled = random.chance(0.5);
    history.log.push(cancelled ? 'cancel' : 'a step fails');
    fail(history, random.pick(tasks), cancelled);
  } else if (draw < 0.75 && node) operator(history, node, random);
  else if (draw < 0.85) tenant(history, random);
  else if (draw < 0.88 && node) beat(history, node, random);
  else if (draw < 0.9 && node && ['ready', 'degraded'].includes(node.status))
    history.moveNode(node, 'offline', 'liveness');
  else if (draw < 0.92 && node?.machine === 'up') node.machine = 'gone';
  else if (draw < 0.96 && node) {
    history.log.push('a deadline of the node');
    expire(history, node);
  } else if (history.allocation && random.chance(0.5)) {
    history.log.push('a deadline of the allocation');
    expireAllocation(history, history.allocation);
  } else if (random.chance(0.5)) inspect(history);
  else requestMachine(history);
}

/** A ready node without a machine falls silent. */
const fallSilent = (history: History, node: ModelNode): boolean =>
  node.status === 'ready' && node.machine !== 'up' && history.moveNode(node, 'offline', 'liveness');

/** More than any history needs to settle. */
const maxRounds = 200;

/** Runs operations and rules until nothing changes. */
export function settle(history: History): void {
  for (let round = 0; round < maxRounds; round++) {
    inspect(history);
    if (tasksOf(history).filter((task) => advance(history, task, null)).length > 0) continue;
    const nodes = history.nodes.filter((node) => fallSilent(history, node) || expire(history, node));
    const allocations = history.allocations.filter((allocation) => expireAllocation(history, allocation));
    if (nodes.length + allocations.length === 0) return;
  }
}
