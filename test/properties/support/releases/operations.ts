/**
 * Applies the stages of operations to a history, under the same conditions as the operations in
 * src/operations.
 */
import { type History, type ModelAllocation, type ModelNode, stages, type Work } from './history.ts';

/** A running operation with its allocation or its node. */
export interface RunningWork {
  work: Work;
  allocation?: ModelAllocation;
  node?: ModelNode | undefined;
}

export const runningWorkOf = (history: History): RunningWork[] => [
  ...history.allocations.flatMap((allocation) =>
    allocation.work ? [{ work: allocation.work, allocation, node: history.nodeOf(allocation) }] : [],
  ),
  ...history.nodes.flatMap((node) => (node.work ? [{ work: node.work, node }] : [])),
];

const endWork = ({ allocation, node, work }: RunningWork): void => {
  if (allocation?.work === work) allocation.work = null;
  else if (node?.work === work) node.work = null;
};

/** Applies a stage. Returns true if the stage is done, and false while it waits. */
type StageEffect = (history: History, running: RunningWork) => boolean;

const isLive = (node: ModelNode | undefined): node is ModelNode => node !== undefined && node.status !== 'retired';

/** Returns the operation's node, unless it is retired or another allocation has it by now. */
const ownNode = (history: History, { allocation, node }: RunningWork): ModelNode | undefined =>
  isLive(node) && (!allocation || history.holderOf(node) === allocation) ? node : undefined;

const assign: StageEffect = (history, { allocation, work }) => {
  if (!allocation) return true;
  // The allocation's node was rescued meanwhile.
  if (allocation.status !== 'requested' && allocation.status !== 'failed') {
    allocation.work = null;
    return true;
  }
  if (work.retry) {
    const failedNode = history.nodeOf(allocation);
    if (failedNode?.status === 'failed' && history.holderOf(failedNode) === allocation) {
      history.replaceInstance(failedNode);
      history.requireMoved(history.moveNode(failedNode, 'provisioning', 'retry'), false, 'retrying the node');
      const isMoved = history.moveAllocation(allocation, 'provisioning', 'retry', failedNode);
      history.requireMoved(isMoved, false, 'retrying the allocation');
      return true;
    }
  }
  const by = work.retry ? 'retry' : 'node-assigned';
  const freeNode = history.node;
  if (freeNode && (freeNode.status !== 'ready' || history.occupancyOf(freeNode) !== 'free')) return false;
  const node = freeNode ?? history.addNode();
  history.requireMoved(history.moveAllocation(allocation, 'provisioning', by, node), false, 'assigning a machine');
  if (freeNode) {
    history.requireMoved(
      history.moveAllocation(allocation, 'active', 'node-ready'),
      false,
      'activating the allocation of a free machine',
    );
    allocation.work = null;
  }
  return true;
};

const launch: StageEffect = (_, { node }) => {
  if (node?.status === 'provisioning') node.machine = 'up';
  return true;
};

const register: StageEffect = (history, { node }) => {
  if (node?.status !== 'provisioning') return true;
  node.registered = true;
  return history.moveNode(node, 'starting', 'registration');
};

const start: StageEffect = (history, { node }) => {
  if (node?.status === 'starting') history.moveNode(node, 'ready', 'claim-ready');
  return true;
};

const fence: StageEffect = (history, running) => {
  const node = ownNode(history, running);
  if (!node) return true;
  const drainThen = node.status === 'quarantined' ? 'hold' : node.drain_then;
  history.requireMoved(
    history.moveNode(node, 'cleaning', 'release'),
    node.status === 'cleaning',
    'fencing the machine',
  );
  node.drain_then = drainThen;
  node.owner = running.work;
  if (!node.registered) node.fenced = true;
  if (running.work.kind === 'release')
    running.work.reuse ??=
      history.rules.reuse &&
      node.registered &&
      !node.fenced &&
      node.machine === 'up' &&
      node.drain_then !== 'retire' &&
      // If the node has an operation of its own, that operation tears the machine down.
      node.work === null;
  return true;
};

const clean: StageEffect = (history, running) => {
  const node = ownNode(history, running);
  if (node && !running.work.reuse && node.machine === 'up') node.machine = 'gone';
  return true;
};

const prove: StageEffect = (history, running) => {
  const node = ownNode(history, running);
  if (!node) return true;
  running.work.proof = running.work.reuse ? 'clean' : 'absent';
  if (!running.work.reuse) node.proven = true;
  return true;
};

/** A node that was quarantined during its clean-up stays quarantined, as in the product. */
function keepNode(history: History, node: ModelNode): void {
  if (node.status === 'quarantined') return;
  const isMoved =
    node.drain_then === 'hold'
      ? history.moveNode(node, 'quarantined', 'quarantine')
      : history.moveNode(node, 'ready', 'proof');
  history.requireMoved(isMoved, false, 'keeping a clean machine');
}

function retire(history: History, node: ModelNode): void {
  history.requireMoved(
    history.moveNode(node, 'retired', 'proof'),
    node.status === 'retired',
    'retiring a machine that is proven gone',
  );
  node.fenced = true;
}

const free: StageEffect = (history, running) => {
  const node = ownNode(history, running);
  if (node && running.work.reuse) keepNode(history, node);
  else if (node) retire(history, node);
  const { allocation } = running;
  if (allocation)
    history.requireMoved(
      history.moveAllocation(allocation, 'released', 'proof'),
      allocation.status === 'released',
      'ending a release',
    );
  return true;
};

/** Finds a proof only if the machine is gone or was never launched. */
const inspect: StageEffect = (history, running) => {
  const node = ownNode(history, running);
  if (node?.machine === 'gone' || node?.machine === 'none') {
    running.work.proof = 'absent';
    node.proven = true;
  }
  return true;
};

const settle: StageEffect = (history, running) => {
  const { allocation, work } = running;
  const node = ownNode(history, running);
  if (!allocation) return true;
  if (node && work.proof) retire(history, node);
  else if (node) {
    history.requireMoved(
      history.moveNode(node, 'quarantined', 'force-release'),
      node.status === 'quarantined',
      'quarantining a machine',
    );
    node.residue = true;
  }
  const isForced = node !== undefined && !work.proof;
  if (!isForced && allocation.status === 'release_failed') history.moveAllocation(allocation, 'releasing', 'release');
  history.requireMoved(
    history.moveAllocation(allocation, 'released', isForced ? 'force-release' : 'proof'),
    allocation.status === 'released',
    'ending a forced release',
  );
  return true;
};

/**
 * Retires a quarantined node whose machine is proven gone, like `retireProvenGone` of the product.
 */
export function retireProvenGone(history: History, node: ModelNode): void {
  if (node.status !== 'quarantined' || !node.proven || node.work || history.isOwnedByRelease(node)) return;
  retire(history, node);
}

const finishRetire: StageEffect = (history, { node, work }) => {
  if (!node) return true;
  // An operator may have quarantined the node meanwhile. Its machine is gone, so it is retired.
  node.work = null;
  if (node.status === 'cleaning' || node.status === 'quarantined') retire(history, node);
  else node.work = work;
  return true;
};

const renew: StageEffect = (history, { node, work }) => {
  if (!node) return true;
  if (node.status === 'cleaning' && node.owner === work) {
    history.replaceInstance(node);
    history.requireMoved(history.moveNode(node, 'provisioning', 'proof'), false, 'replacing the instance');
    return true;
  }
  node.work = null;
  retireProvenGone(history, node);
  return true;
};

const replace: StageEffect = (history, { node, work }) => {
  if (!node) return true;
  if (node.owner !== work) {
    node.work = null;
    return true;
  }
  const holder = history.holderOf(node);
  const isRescue = node.status === 'failed' && holder?.status === 'failed';
  history.replaceInstance(node);
  if (!history.moveNode(node, 'provisioning', 're-enroll')) node.work = null;
  else if (isRescue && holder) history.moveAllocation(holder, 'provisioning', 'rescue');
  return true;
};

const noEffect: StageEffect = () => true;
const effects: Record<string, StageEffect> = {
  ...{ assign, launch, register, start, fence, bar: fence, clean, free, settle, renew, replace, retire: finishRetire },
  ...{ freeze: noEffect, drain: noEffect, stop: noEffect, 'stop-others': noEffect },
};

/** Runs the next stage of an operation. Returns false if the stage has to wait. */
export function advanceStage(history: History, running: RunningWork): boolean {
  const { work } = running;
  const plan = stages[work.kind];
  const stage = plan[work.stage];
  const effect = stage === 'prove' ? (work.kind === 'force' ? inspect : prove) : effects[stage ?? ''];
  if (!effect) throw new Error(`no stage ${stage} in ${work.kind}`);
  if (!effect(history, running)) return false;
  work.stage++;
  if (work.stage >= plan.length) endWork(running);
  return true;
}

/** Ends an operation by an error or a cancellation. Returns false if the operation ignores it. */
export function endEarly(history: History, running: RunningWork, cancelled: boolean): boolean {
  const { work, node, allocation } = running;
  const stage = stages[work.kind][work.stage] ?? '';
  if (work.kind === 'force') return false;
  if (work.kind === 'release') {
    endWork(running);
    if (allocation?.status === 'releasing') history.moveAllocation(allocation, 'release_failed', 'release-deadline');
    return true;
  }
  if (work.kind === 'provision' && cancelled) return false;
  endWork(running);
  const isTeardownStage = ['freeze', 'drain', 'stop', 'clean', 'prove', 'retire', 'renew'].includes(stage);
  if ((work.kind === 'retire' || work.kind === 'reimage') && isTeardownStage && node?.status === 'cleaning') {
    history.moveNode(node, 'quarantined', 'clean-error');
    node.fenced = true;
  } else if (!cancelled && node?.status === 'provisioning') history.moveNode(node, 'failed', 'provision-error');
  else if (allocation?.status === 'requested') history.moveAllocation(allocation, 'failed', 'provision-error');
  return true;
}
