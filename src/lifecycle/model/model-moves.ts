/**
 * Every way in which a node and its allocation can move on together, drawn from the tables. The model checker explores it.
 * Pure. What the tables cannot say, since it is about who acts, is data at the top of this file: which changes an
 * operation makes together, and which causes need the other side to stand somewhere.
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

/** `none` is before its birth or without the other; `over` is a failed allocation whose rescue window has ended. */
export type NodePart = NodeStatus | 'none';
export type AllocationPart = AllocationStatus | 'over' | 'none';

export interface State {
  node: NodePart;
  allocation: AllocationPart;
}

/**
 * - automatic: a rule or an operation brings it about, nobody is needed
 * - operator: a person or a tenant asks
 * - chance: the machine says so, or a rule finds something wrong with it; neither need ever happen
 * - view: nothing happens; a finished allocation is forgotten, so that the next one can be looked at
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

/** What one operation changes on both sides in one transaction. */
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

/** Causes that move a node only while its allocation stands so. */
const nodeGuards: Partial<Record<Cause, (allocation: AllocationPart, node: NodePart) => boolean>> = {
  'node-provision': never,
  retry: never,
  'force-release': never,
  release: (allocation) => allocation === 'releasing',
  // One that was set aside is proven gone only by an operation that was taking it down already.
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

const nothingIsLeft = (node: NodePart) => node === 'none' || node === 'retired';

/** Causes that move an allocation only while its node stands so; those of paired changes never move it alone. */
const allocationGuards: Partial<Record<Cause, (node: NodePart) => boolean>> = {
  'node-ready': never,
  'node-failed': never,
  'node-lost': never,
  rescue: never,
  'node-assigned': never,
  retry: never,
  // One that was set aside while it was cleaned stays aside when it is proven clean.
  proof: (node) => nothingIsLeft(node) || node === 'quarantined',
  'force-release': (node) => nothingIsLeft(node) || node === 'quarantined',
  'allocation-create': (node) => node === 'none',
};

/** Rules that no deadline makes fire. */
const chances: readonly Cause[] = ['drift', 'degraded', 'probe-promotes', 'prerequisite-missing'];

const kinds: Record<Trigger, MoveKind> = {
  rule: 'automatic',
  operation: 'automatic',
  operator: 'operator',
  claim: 'chance',
};

const kindOf = (by: Cause): MoveKind => (chances.includes(by) ? 'chance' : kinds[causes[by].trigger]);

const departing = <S extends string>(part: S | 'over' | 'none'): S | 'new' | 'over' => (part === 'none' ? 'new' : part);
const has = <S extends string>(edges: readonly Edge<S>[], from: S | 'new', to: S, by: Cause) =>
  edges.some((edge) => edge.from === from && edge.to === to && edge.by.includes(by));

function nodeMoves(model: Model, { node, allocation }: State): Move[] {
  const open = model.nodeEdges.filter((edge) => edge.from === departing(node));
  return open.flatMap((edge) => {
    const pair = model.pairedChanges.find(
      (each) =>
        each.node.to === edge.to && each.node.from.some((from) => from === node) && each.allocation.from === allocation,
    );
    const to: State = { node: edge.to, allocation: pair ? pair.allocation.to : allocation };
    return (
      edge.by
        .filter((by) => nodeGuards[by]?.(allocation, node) ?? true)
        // The release operation fences the machine by itself once it was asked for.
        .map((by): Move => ({ to, by, kind: by === 'release' ? 'automatic' : kindOf(by) }))
    );
  });
}

function allocationMoves(model: Model, { node, allocation }: State): Move[] {
  return model.allocationEdges
    .filter((edge) => edge.from === departing(allocation))
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
        node.from === departing(state.node) &&
        allocation.from === state.allocation &&
        has(model.nodeEdges, node.from, node.to, node.by) &&
        has(model.allocationEdges, allocation.from, allocation.to, allocation.by),
    )
    .map(({ node, allocation, kind }) => ({
      to: { node: node.to, allocation: allocation.to },
      by: allocation.by,
      kind,
    }));
}

/** A free machine is ready: the allocation passes through `provisioning` in the same transaction. */
function handingOutMoves(model: Model, { node, allocation }: State): Move[] {
  const possible =
    has(model.allocationEdges, 'requested', 'provisioning', 'node-assigned') &&
    has(model.allocationEdges, 'provisioning', 'active', 'node-ready');
  const served: State = { node: 'ready', allocation: 'active' };
  if (possible && node === 'none' && allocation === 'requested')
    return [{ to: served, by: 'node-assigned', kind: 'automatic' }];
  if (possible && node === 'ready' && allocation === 'none')
    return [{ to: served, by: 'node-assigned', kind: 'operator' }];
  return [];
}

function endingMoves(model: Model, { node, allocation }: State): Move[] {
  const moves: Move[] = [];
  if (allocation === 'failed' && model.allocationStatuses.failed.deadline === 'rescue')
    moves.push({ to: { node, allocation: 'over' }, by: 'window-over', kind: 'automatic' });
  const letGo = allocation === 'failed' && node !== 'failed';
  if (allocation === 'released' || allocation === 'over' || letGo)
    moves.push({ to: { node, allocation: 'none' }, by: 'forgotten', kind: 'view' });
  // Without its machine the failed allocation is tried again on another one.
  if (letGo && has(model.allocationEdges, 'failed', 'provisioning', 'retry'))
    moves.push({ to: { node: 'provisioning', allocation: 'provisioning' }, by: 'retry', kind: 'operator' });
  return moves;
}

export function movesFrom(model: Model, state: State): Move[] {
  return [nodeMoves, allocationMoves, jointMoves, handingOutMoves, endingMoves].flatMap((moves) => moves(model, state));
}
