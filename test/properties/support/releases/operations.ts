/** The effect of each stage of an operation on a history, with the conditions of src/operations. */
import type { Random } from '../random.ts';
import { type History, type ModelAllocation, type ModelNode, stages, type Work } from './history.ts';

export interface Task {
  work: Work;
  allocation?: ModelAllocation;
  node?: ModelNode | undefined;
}

export const tasksOf = (history: History): Task[] => [
  ...history.allocations.flatMap((allocation) =>
    allocation.work ? [{ work: allocation.work, allocation, node: history.nodeOf(allocation) }] : [],
  ),
  ...history.nodes.flatMap((node) => (node.work ? [{ work: node.work, node }] : [])),
];

const end = ({ allocation, node, work }: Task): void => {
  if (allocation?.work === work) allocation.work = null;
  else if (node?.work === work) node.work = null;
};

/** Returns whether the stage is done; false while it waits. */
type Stage = (history: History, task: Task, random: Random | null) => boolean;

const isUp = (node: ModelNode | undefined): node is ModelNode => node !== undefined && node.status !== 'retired';

/** The node of a release, unless another allocation has it by now. */
const ownNode = (history: History, { allocation, node }: Task): ModelNode | undefined =>
  isUp(node) && (!allocation || history.holderOf(node) === allocation) ? node : undefined;

const assign: Stage = (history, { allocation, work }) => {
  if (!allocation) return true;
  // Its node was rescued meanwhile.
  if (allocation.status !== 'requested' && allocation.status !== 'failed') {
    allocation.work = null;
    return true;
  }
  if (work.retry) {
    const former = history.nodeOf(allocation);
    if (former?.status === 'failed' && history.holderOf(former) === allocation) {
      history.renew(former);
      history.must(history.moveNode(former, 'provisioning', 'retry'), false, 'another try');
      history.must(history.moveAllocation(allocation, 'provisioning', 'retry', former), false, 'another try');
      return true;
    }
  }
  const by = work.retry ? 'retry' : 'node-assigned';
  const free = history.node;
  if (free && (free.status !== 'ready' || history.occupancyOf(free) !== 'free')) return false;
  const node = free ?? history.addNode();
  history.must(history.moveAllocation(allocation, 'provisioning', by, node), false, 'assigning a machine');
  if (free) {
    history.must(history.moveAllocation(allocation, 'active', 'node-ready'), false, 'handing out a free machine');
    allocation.work = null;
  }
  return true;
};

const launch: Stage = (_, { node }) => {
  if (node?.status === 'provisioning') node.machine = 'up';
  return true;
};

const register: Stage = (history, { node }) => {
  if (node?.status !== 'provisioning') return true;
  node.registered = true;
  return history.moveNode(node, 'starting', 'registration');
};

const start: Stage = (history, { node }) => {
  if (node?.status === 'starting') history.moveNode(node, 'ready', 'claim-ready');
  return true;
};

const bar: Stage = (history, task) => {
  const node = ownNode(history, task);
  if (!node) return true;
  const after = node.status === 'quarantined' ? 'hold' : node.drain_then;
  history.must(history.moveNode(node, 'cleaning', 'release'), node.status === 'cleaning', 'fencing the machine');
  node.drain_then = after;
  node.bound = task.work;
  if (!node.registered) node.fenced = true;
  if (task.work.kind === 'release')
    task.work.reuse ??=
      history.rules.reuse &&
      node.registered &&
      !node.fenced &&
      node.machine === 'up' &&
      node.drain_then !== 'retire' &&
      // Another operation tears it down.
      node.work === null;
  return true;
};

const clean: Stage = (history, task) => {
  const node = ownNode(history, task);
  if (node && !task.work.reuse && node.machine === 'up') node.machine = 'gone';
  return true;
};

const prove: Stage = (history, task) => {
  const node = ownNode(history, task);
  if (!node) return true;
  task.work.proof = task.work.reuse ? 'clean' : 'absent';
  if (!task.work.reuse) node.proven = true;
  return true;
};

/** Like `stays`: a node that was quarantined while it was cleaned stays there. */
function keepNode(history: History, node: ModelNode): void {
  if (node.status === 'quarantined') return;
  const moved =
    node.drain_then === 'hold'
      ? history.moveNode(node, 'quarantined', 'quarantine')
      : history.moveNode(node, 'ready', 'proof');
  history.must(moved, false, 'keeping a clean machine');
}

function retire(history: History, node: ModelNode): void {
  history.must(
    history.moveNode(node, 'retired', 'proof'),
    node.status === 'retired',
    'retiring a machine that is proven gone',
  );
  node.fenced = true;
}

const free: Stage = (history, task) => {
  const node = ownNode(history, task);
  if (node && task.work.reuse) keepNode(history, node);
  else if (node) retire(history, node);
  const { allocation } = task;
  if (allocation)
    history.must(
      history.moveAllocation(allocation, 'released', 'proof'),
      allocation.status === 'released',
      'ending a release',
    );
  return true;
};

/** An inspection finds a proof only if the machine is gone. */
const inspect: Stage = (history, task) => {
  const node = ownNode(history, task);
  if (node?.machine === 'gone' || node?.machine === 'none') {
    task.work.proof = 'absent';
    node.proven = true;
  }
  return true;
};

const settle: Stage = (history, task) => {
  const { allocation, work } = task;
  const node = ownNode(history, task);
  if (!allocation) return true;
  if (node && work.proof) retire(history, node);
  else if (node) {
    history.must(
      history.moveNode(node, 'quarantined', 'force-release'),
      node.status === 'quarantined',
      'quarantining a machine',
    );
    node.residue = true;
  }
  const forced = node !== undefined && !work.proof;
  if (!forced && allocation.status === 'release_failed') history.moveAllocation(allocation, 'releasing', 'release');
  history.must(
    history.moveAllocation(allocation, 'released', forced ? 'force-release' : 'proof'),
    allocation.status === 'released',
    'ending a forced release',
  );
  return true;
};

/** Like `retireProvenGone` of the product. */
export function retireProvenGone(history: History, node: ModelNode): void {
  if (node.status !== 'quarantined' || !node.proven || node.work || history.isOwned(node)) return;
  retire(history, node);
}

const close: Stage = (history, { node, work }) => {
  if (!node) return true;
  // An operator may have quarantined it meanwhile; its machine is gone anyway.
  node.work = null;
  if (node.status === 'cleaning' || node.status === 'quarantined') retire(history, node);
  else node.work = work;
  return true;
};

const renew: Stage = (history, { node, work }) => {
  if (!node) return true;
  if (node.status === 'cleaning' && node.bound === work) {
    history.renew(node);
    history.must(history.moveNode(node, 'provisioning', 'proof'), false, 'a new instance');
    return true;
  }
  node.work = null;
  retireProvenGone(history, node);
  return true;
};

const replace: Stage = (history, { node, work }) => {
  if (!node) return true;
  if (node.bound !== work) {
    node.work = null;
    return true;
  }
  const holder = history.holderOf(node);
  const rescues = node.status === 'failed' && holder?.status === 'failed';
  history.renew(node);
  if (!history.moveNode(node, 'provisioning', 're-enroll')) node.work = null;
  else if (rescues && holder) history.moveAllocation(holder, 'provisioning', 'rescue');
  return true;
};

const nothing: Stage = () => true;
const acts: Record<string, Stage> = {
  ...{ assign, launch, register, start, fence: bar, bar, clean, free, settle, renew, replace, retire: close },
  ...{ freeze: nothing, drain: nothing, stop: nothing, 'stop-others': nothing },
};

/** Runs the next stage of an operation. */
export function advance(history: History, task: Task, random: Random | null): boolean {
  const { work } = task;
  const plan = stages[work.kind];
  const stage = plan[work.stage];
  const act = stage === 'prove' ? (work.kind === 'force' ? inspect : prove) : acts[stage ?? ''];
  if (!act) throw new Error(`no stage ${stage} in ${work.kind}`);
  const went = act(history, task, random);
  if (!went) return false;
  work.stage++;
  if (work.stage >= plan.length) end(task);
  return true;
}

/** Ends an operation by an error or a cancellation. */
export function fail(history: History, task: Task, cancelled: boolean): boolean {
  const { work, node, allocation } = task;
  const stage = stages[work.kind][work.stage] ?? '';
  if (work.kind === 'force') return false;
  if (work.kind === 'release') {
    end(task);
    if (allocation?.status === 'releasing') history.moveAllocation(allocation, 'release_failed', 'release-deadline');
    return true;
  }
  if (work.kind === 'provision' && cancelled) return false;
  end(task);
  const down = ['freeze', 'drain', 'stop', 'clean', 'prove', 'retire', 'renew'].includes(stage);
  if ((work.kind === 'retire' || work.kind === 'reimage') && down && node?.status === 'cleaning') {
    history.moveNode(node, 'quarantined', 'clean-error');
    node.fenced = true;
  } else if (!cancelled && node?.status === 'provisioning') history.moveNode(node, 'failed', 'provision-error');
  else if (allocation?.status === 'requested') history.moveAllocation(allocation, 'failed', 'provision-error');
  return true;
}
