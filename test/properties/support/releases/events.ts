/**
 * Applies random events of people, machines and time to a history, and lets it settle afterwards.
 */
import { nodeActionNames } from '../../../../src/lifecycle/actions/actions.ts';
import { allocationActionNames } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { Random } from '../random.ts';
import type { History, ModelAllocation, ModelNode, WorkKind } from './history.ts';
import { advanceStage, endEarly, retireProvenGone, runningWorkOf } from './operations.ts';

type NodeEffect = (history: History, node: ModelNode, random: Random) => void;
type AllocationEffect = (history: History, allocation: ModelAllocation) => void;

const startWork = (kind: WorkKind) => ({ kind, stage: 0, proof: null });
const startOwningWork = (node: ModelNode, kind: WorkKind) => {
  node.work = startWork(kind);
  node.owner = node.work;
};
const noEffect = () => {};

const tearDown =
  (kind: 'retire' | 'reimage'): NodeEffect =>
  (history, node) => {
    if (history.moveNode(node, 'cleaning', kind)) startOwningWork(node, kind);
  };

/** The effect of every action on a node. The type requires an entry for a new action. */
export const nodeEffects: Record<(typeof nodeActionNames)[number], NodeEffect> = {
  quarantine(history, node) {
    if (!history.moveNode(node, 'quarantined', 'quarantine')) return;
    // A quarantine cancels a teardown, but a release continues.
    if (node.work?.kind === 'retire' || node.work?.kind === 'reimage') node.work = null;
  },
  reactivate: (history, node) => {
    history.moveNode(node, 'starting', 'reactivate');
  },
  reimage: tearDown('reimage'),
  retire: tearDown('retire'),
  're-enroll': (_, node) => {
    startOwningWork(node, 're-enroll');
    node.fenced = true;
  },
  drain(history, node, random) {
    if (history.moveNode(node, 'draining', 'drain')) node.drain_then = random.pick(['hold', 'retire'] as const);
  },
  undrain: (history, node) => {
    history.moveNode(node, 'ready', 'undrain');
  },
  retry: (history, node) => actOnHolder(history, node, 'retry'),
  'retry-release': (history, node) => actOnHolder(history, node, 'retry-release'),
  'force-release': (history, node) => actOnHolder(history, node, 'force-release'),
  ...{ 'extend-deadline': noEffect, 'accept-key': noEffect, 'apply-held-verdict': noEffect, probe: noEffect },
  'collect-diagnostics': noEffect,
};

const beginRelease: AllocationEffect = (history, allocation) => {
  if (history.moveAllocation(allocation, 'releasing', 'release')) allocation.work = startWork('release');
};

export const allocationEffects: Record<(typeof allocationActionNames)[number], AllocationEffect> = {
  release: beginRelease,
  'retry-release': beginRelease,
  'force-release': (_, allocation) => {
    allocation.work = startWork('force');
  },
  retry: (_, allocation) => {
    allocation.work = { ...startWork('provision'), retry: true };
  },
  ...{ 'extend-deadline': noEffect, 'accept-key': noEffect, 'apply-held-verdict': noEffect, probe: noEffect },
  'collect-diagnostics': noEffect,
};

function actOnHolder(history: History, node: ModelNode, action: 'retry' | 'retry-release' | 'force-release'): void {
  const holder = history.holderOf(node);
  if (holder && history.isAllowedOnAllocation(action, holder)) allocationEffects[action](history, holder);
}

/** Requests a machine, unless an allocation already has the machine or waits for it. */
export function requestMachine(history: History): boolean {
  const lastAllocation = history.allocation;
  if (
    lastAllocation &&
    lastAllocation.status !== 'released' &&
    !(lastAllocation.status === 'failed' && lastAllocation.isRescueOver)
  )
    return false;
  history.addAllocation().work = startWork('provision');
  return true;
}

/** Lets the deadline of a node pass. Returns whether the history changed. */
export function expireNode(history: History, node: ModelNode): boolean {
  const { status } = node;
  if (status === 'provisioning') return history.moveNode(node, 'failed', 'provision-deadline');
  if (status === 'starting') return history.moveNode(node, 'failed', 'start-deadline');
  if (status === 'offline') return history.moveNode(node, 'failed', 'offline-deadline');
  if (status === 'failed') {
    const holder = history.holderOf(node);
    if (holder?.status === 'failed') holder.isRescueOver = true;
    if (!history.moveNode(node, 'cleaning', 'rescue-over')) return false;
    startOwningWork(node, 'retire');
    return true;
  }
  if (status === 'draining') {
    if (node.drain_then !== 'retire') return history.moveNode(node, 'quarantined', 'drain-deadline');
    if (!history.moveNode(node, 'cleaning', 'drain-deadline')) return false;
    startOwningWork(node, 'retire');
    return true;
  }
  if (status === 'cleaning' && !history.isOwnedByRelease(node)) {
    node.work = null;
    return history.moveNode(node, 'quarantined', 'clean-deadline');
  }
  return false;
}

/** Lets the deadline of an allocation pass. Returns whether the history changed. */
export function expireAllocation(history: History, allocation: ModelAllocation): boolean {
  const { status } = allocation;
  if (status === 'releasing') {
    allocation.work = null;
    return history.moveAllocation(allocation, 'release_failed', 'release-deadline');
  }
  if (status === 'release_failed') {
    if (allocation.work) return false;
    if (history.moveAllocation(allocation, 'releasing', 'release-retry')) allocation.work = startWork('release');
    return true;
  }
  if (status === 'requested') {
    allocation.work = null;
    return history.moveAllocation(allocation, 'failed', 'queue-deadline');
  }
  if (status === 'failed' && allocation.work?.stage === 0) {
    // A retry stops waiting for capacity when the time limit of its first step passes.
    allocation.work = null;
    return true;
  }
  if (status === 'failed' && !allocation.isRescueOver && !allocation.work) {
    const node = history.nodeOf(allocation);
    // While the node may still come back, the node's deadline ends the rescue window.
    if (node?.status === 'failed') return false;
    allocation.isRescueOver = true;
    return true;
  }
  return false;
}

/** Applies the rules that inspect machines. */
export function inspectMachines(history: History): void {
  for (const node of history.nodes) {
    if (node.residue && node.machine !== 'up') Object.assign(node, { residue: false, proven: true });
    retireProvenGone(history, node);
  }
}

const beat: NodeEffect = (history, node) => {
  if (node.machine !== 'up' || node.fenced) return;
  if (node.status === 'starting') history.moveNode(node, 'ready', 'claim-ready');
  else if (node.status === 'offline') history.moveNode(node, 'ready', 'heartbeat-returned');
  else if (node.status === 'failed') history.moveNode(node, 'starting', 'late-registration');
};

const actAsOperator: NodeEffect = (history, node, random) => {
  const action = random.pick(nodeActionNames);
  if (!history.isAllowedOnNode(action, node)) return;
  history.log.push(`operator: ${action}`);
  nodeEffects[action](history, node, random);
};

const actAsTenant = (history: History, random: Random) => {
  const { allocation } = history;
  if (!allocation) return;
  // At least half of the actions are releases, because these histories test releases.
  const action = random.chance(0.5) ? 'release' : random.pick(allocationActionNames);
  if (!history.isAllowedOnAllocation(action, allocation)) return;
  history.log.push(`tenant: ${action}`);
  allocationEffects[action](history, allocation);
};

/** Applies one random event. */
export function randomEvent(history: History, random: Random): void {
  const { node } = history;
  const draw = random.next();
  const runningWork = runningWorkOf(history);
  if (draw < 0.5 && runningWork.length > 0) {
    const running = random.pick(runningWork);
    history.log.push(`${running.work.kind} stage ${running.work.stage}`);
    advanceStage(history, running);
  } else if (draw < 0.55 && runningWork.length > 0) {
    const isCancelled = random.chance(0.5);
    history.log.push(isCancelled ? 'cancel' : 'a step fails');
    endEarly(history, random.pick(runningWork), isCancelled);
  } else if (draw < 0.75 && node) actAsOperator(history, node, random);
  else if (draw < 0.85) actAsTenant(history, random);
  else if (draw < 0.88 && node) beat(history, node, random);
  else if (draw < 0.9 && node && ['ready', 'degraded'].includes(node.status))
    history.moveNode(node, 'offline', 'liveness');
  else if (draw < 0.92 && node?.machine === 'up') node.machine = 'gone';
  else if (draw < 0.96 && node) {
    history.log.push('the deadline of the node passes');
    expireNode(history, node);
  } else if (history.allocation && random.chance(0.5)) {
    history.log.push('the deadline of the allocation passes');
    expireAllocation(history, history.allocation);
  } else if (random.chance(0.5)) inspectMachines(history);
  else requestMachine(history);
}

/** Moves a ready node without a machine to offline, as the liveness rule does. */
const detectSilence = (history: History, node: ModelNode): boolean =>
  node.status === 'ready' && node.machine !== 'up' && history.moveNode(node, 'offline', 'liveness');

/** No history needs more rounds to settle. */
const maxRounds = 200;

/** Runs operations and rules until nothing changes. */
export function settle(history: History): void {
  for (let round = 0; round < maxRounds; round++) {
    inspectMachines(history);
    if (runningWorkOf(history).filter((running) => advanceStage(history, running)).length > 0) continue;
    const changedNodes = history.nodes.filter((node) => detectSilence(history, node) || expireNode(history, node));
    const changedAllocations = history.allocations.filter((allocation) => expireAllocation(history, allocation));
    if (changedNodes.length + changedAllocations.length === 0) return;
  }
}
