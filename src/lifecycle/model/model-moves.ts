/**
 * All joint moves of a node and its allocation, derived from the transition tables for the model
 * checker. The tables list only single changes. This file adds which changes one operation makes
 * together, and which causes require a certain status of the other side.
 */
import {
  type AllocationStatus,
  allocationStatuses,
  type NodeStatus,
  nodeStatuses,
  type StatusDeclaration,
} from './states.ts';
import {
  allocationEdges,
  type Cause,
  causes,
  type Edge,
  nodeEdges,
  type PairedChange,
  pairedChanges,
  type Trigger,
} from './transitions.ts';

export interface Model {
  nodeStatuses: Record<NodeStatus, StatusDeclaration>;
  allocationStatuses: Record<AllocationStatus, StatusDeclaration>;
  nodeEdges: readonly Edge<NodeStatus>[];
  allocationEdges: readonly Edge<AllocationStatus>[];
  pairedChanges: readonly PairedChange[];
}

export const slipwayModel: Model = { nodeStatuses, allocationStatuses, nodeEdges, allocationEdges, pairedChanges };

/**
 * `none`: the node or allocation does not exist. `over`: a failed allocation after its rescue
 * window.
 */
export type NodePart = NodeStatus | 'none';
export type AllocationPart = AllocationStatus | 'over' | 'none';

export interface State {
  node: NodePart;
  allocation: AllocationPart;
}

/**
 * - automatic: a rule or an operation makes the move, without a person
 * - operator: a person or a tenant requests the move
 * - chance: a report of the machine, or a rule that finds a fault, causes the move; it may never
 *   come
 * - view: nothing changes; drops a finished allocation so that the next one can be explored
 */
export type MoveKind = 'automatic' | 'operator' | 'chance' | 'view';

export interface Move {
  to: State;
  by: Cause | 'window-over' | 'forgotten';
  kind: MoveKind;
}

interface JointChange {
  node: { from: NodeStatus | 'new'; to: NodeStatus; by: Cause };
  allocation: { from: AllocationStatus; to: AllocationStatus; by: Cause };
  kind: MoveKind;
}

/** Changes that one operation makes to both sides in one transaction. */
const jointChanges: readonly JointChange[] = [
  {
    node: { from: 'new', to: 'provisioning', by: 'node-provision' },
    allocation: { from: 'requested', to: 'provisioning', by: 'node-assigned' },
    kind: 'automatic',
  },
  {
    node: { from: 'failed', to: 'provisioning', by: 'retry' },
    allocation: { from: 'failed', to: 'provisioning', by: 'retry' },
    kind: 'operator',
  },
  {
    node: { from: 'failed', to: 'provisioning', by: 're-enroll' },
    allocation: { from: 'failed', to: 'provisioning', by: 'rescue' },
    kind: 'operator',
  },
  {
    node: { from: 'cleaning', to: 'ready', by: 'proof' },
    allocation: { from: 'releasing', to: 'released', by: 'proof' },
    kind: 'automatic',
  },
  {
    node: { from: 'cleaning', to: 'retired', by: 'proof' },
    allocation: { from: 'releasing', to: 'released', by: 'proof' },
    kind: 'automatic',
  },
  {
    node: { from: 'quarantined', to: 'retired', by: 'proof' },
    allocation: { from: 'releasing', to: 'released', by: 'proof' },
    kind: 'automatic',
  },
  {
    node: { from: 'cleaning', to: 'quarantined', by: 'force-release' },
    allocation: { from: 'releasing', to: 'released', by: 'force-release' },
    kind: 'operator',
  },
  {
    node: { from: 'cleaning', to: 'quarantined', by: 'force-release' },
    allocation: { from: 'release_failed', to: 'released', by: 'force-release' },
    kind: 'operator',
  },
];

export const ownsCleanup = (allocation: AllocationPart): boolean =>
  allocation === 'releasing' || allocation === 'release_failed';
const never = () => false;

/** Causes that move a node only in certain statuses of its allocation. `never`: only jointly. */
const nodeGuards: Partial<Record<Cause, (allocation: AllocationPart, node: NodePart) => boolean>> = {
  'node-provision': never,
  retry: never,
  'force-release': never,
  release: (allocation) => allocation === 'releasing',
  // Without a release, no operation tears a quarantined node down, so nothing can prove it gone.
  proof: (allocation, node) => !ownsCleanup(allocation) && node !== 'quarantined',
  'clean-deadline': (allocation) => !ownsCleanup(allocation),
  'clean-error': (allocation) => !ownsCleanup(allocation),
  reactivate: (allocation) => !ownsCleanup(allocation),
  're-enroll': (allocation) => !ownsCleanup(allocation),
  reimage: (allocation) => !ownsCleanup(allocation),
  retire: (allocation) => !ownsCleanup(allocation),
  'node-create': (allocation) => allocation === 'none',
  join: (allocation) => allocation === 'none',
};

const isGone = (node: NodePart) => node === 'none' || node === 'retired';

/**
 * Causes that move an allocation only in certain statuses of its node. Causes of paired and joint
 * changes never move an allocation alone.
 */
const allocationGuards: Partial<Record<Cause, (node: NodePart) => boolean>> = {
  'node-ready': never,
  'node-failed': never,
  'node-lost': never,
  rescue: never,
  'node-assigned': never,
  retry: never,
  // A node that was quarantined during its cleanup may stay quarantined when the release ends.
  proof: (node) => isGone(node) || node === 'quarantined',
  'force-release': (node) => isGone(node) || node === 'quarantined',
  'allocation-create': (node) => node === 'none',
};

/** Rules that no deadline triggers, so they may never apply. */
const chanceRules: readonly Cause[] = ['drift', 'degraded', 'probe-promotes', 'prerequisite-missing'];

const kinds: Record<Trigger, MoveKind> = {
  rule: 'automatic',
  operation: 'automatic',
  operator: 'operator',
  claim: 'chance',
};

const kindOf = (by: Cause): MoveKind => (chanceRules.includes(by) ? 'chance' : kinds[causes[by].trigger]);

const edgeOrigin = <S extends string>(part: S | 'over' | 'none'): S | 'new' | 'over' =>
  part === 'none' ? 'new' : part;
const hasEdge = <S extends string>(edges: readonly Edge<S>[], from: S | 'new', to: S, by: Cause) =>
  edges.some((edge) => edge.from === from && edge.to === to && edge.by.includes(by));

function nodeMoves(model: Model, { node, allocation }: State): Move[] {
  const outgoing = model.nodeEdges.filter((edge) => edge.from === edgeOrigin(node));
  return outgoing.flatMap((edge) => {
    const pair = model.pairedChanges.find(
      (each) =>
        each.node.to === edge.to && each.node.from.some((from) => from === node) && each.allocation.from === allocation,
    );
    const to: State = { node: edge.to, allocation: pair ? pair.allocation.to : allocation };
    return (
      edge.by
        .filter((by) => nodeGuards[by]?.(allocation, node) ?? true)
        // A person only requests the release; its operation then moves the node to `cleaning`.
        .map((by): Move => ({ to, by, kind: by === 'release' ? 'automatic' : kindOf(by) }))
    );
  });
}

function allocationMoves(model: Model, { node, allocation }: State): Move[] {
  return model.allocationEdges
    .filter((edge) => edge.from === edgeOrigin(allocation))
    .flatMap((edge) =>
      edge.by
        .filter((by) => allocationGuards[by]?.(node) ?? true)
        .map((by): Move => ({ to: { node, allocation: edge.to }, by, kind: kindOf(by) })),
    );
}

function jointMoves(model: Model, state: State): Move[] {
  return jointChanges
    .filter(
      ({ node, allocation }) =>
        node.from === edgeOrigin(state.node) &&
        allocation.from === state.allocation &&
        hasEdge(model.nodeEdges, node.from, node.to, node.by) &&
        hasEdge(model.allocationEdges, allocation.from, allocation.to, allocation.by),
    )
    .map(({ node, allocation, kind }) => ({
      to: { node: node.to, allocation: allocation.to },
      by: allocation.by,
      kind,
    }));
}

/**
 * A free machine is ready, so the allocation passes through `provisioning` in the same transaction.
 */
function assignmentMoves(model: Model, { node, allocation }: State): Move[] {
  const isPossible =
    hasEdge(model.allocationEdges, 'requested', 'provisioning', 'node-assigned') &&
    hasEdge(model.allocationEdges, 'provisioning', 'active', 'node-ready');
  const assigned: State = { node: 'ready', allocation: 'active' };
  if (isPossible && node === 'none' && allocation === 'requested')
    return [{ to: assigned, by: 'node-assigned', kind: 'automatic' }];
  if (isPossible && node === 'ready' && allocation === 'none')
    return [{ to: assigned, by: 'node-assigned', kind: 'operator' }];
  return [];
}

function closingMoves(model: Model, { node, allocation }: State): Move[] {
  const moves: Move[] = [];
  if (allocation === 'failed' && model.allocationStatuses.failed.deadline === 'rescue')
    moves.push({ to: { node, allocation: 'over' }, by: 'window-over', kind: 'automatic' });
  const isDetached = allocation === 'failed' && node !== 'failed';
  if (allocation === 'released' || allocation === 'over' || isDetached)
    moves.push({ to: { node, allocation: 'none' }, by: 'forgotten', kind: 'view' });
  // An allocation that has lost its machine is retried on another one.
  if (isDetached && hasEdge(model.allocationEdges, 'failed', 'provisioning', 'retry'))
    moves.push({ to: { node: 'provisioning', allocation: 'provisioning' }, by: 'retry', kind: 'operator' });
  return moves;
}

export function movesFrom(model: Model, state: State): Move[] {
  return [nodeMoves, allocationMoves, jointMoves, assignmentMoves, closingMoves].flatMap((moves) =>
    moves(model, state),
  );
}
