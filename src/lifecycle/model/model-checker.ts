/**
 * Proves that no node or allocation can get stuck. Explores every joint state of a node and its
 * allocation, and checks the guarantees of each.
 */
import {
  type AllocationPart,
  type Model,
  type Move,
  type MoveKind,
  movesFrom,
  type NodePart,
  ownsCleanup,
  type State,
  slipwayModel,
} from './model-moves.ts';
import type { AllocationStatus, BudgetPhase, NodeStatus, StatusClass, StatusDeclaration } from './states.ts';
import { type Cause, causes, type Edge, findEdge } from './transitions.ts';

export interface Violation {
  /** The status or state, for example `node quarantined with allocation provisioning`. */
  where: string;
  what: string;
}

export interface Proof {
  states: State[];
  moves: number;
  findings: Violation[];
}

const keyOf = (state: State) => `${state.node}/${state.allocation}`;
const describeState = (state: State) => `node ${state.node} with allocation ${state.allocation}`;

class Exploration {
  readonly states = new Map<string, State>();
  readonly #moves = new Map<string, Move[]>();

  constructor(model: Model) {
    const queue: State[] = [{ node: 'none', allocation: 'none' }];
    for (let state = queue.pop(); state; state = queue.pop()) {
      if (this.states.has(keyOf(state))) continue;
      const moves = movesFrom(model, state);
      this.states.set(keyOf(state), state);
      this.#moves.set(keyOf(state), moves);
      queue.push(...moves.map((move) => move.to));
    }
  }

  movesFrom(state: State): Move[] {
    return this.#moves.get(keyOf(state)) ?? [];
  }

  /** Whether automatic moves and at most `operatorActions` operator moves lead to a goal. */
  reaches(start: State, isGoal: (state: State) => boolean, operatorActions: number): boolean {
    const seen = new Set<string>();
    const queue = [{ state: start, actionsLeft: operatorActions }];
    for (let current = queue.pop(); current; current = queue.pop()) {
      const { state, actionsLeft } = current;
      if (isGoal(state)) return true;
      const key = `${keyOf(state)}/${actionsLeft}`;
      if (seen.has(key)) continue;
      seen.add(key);
      for (const move of this.movesFrom(state)) {
        const cost: Record<MoveKind, number> = { automatic: 0, operator: 1, chance: Infinity, view: Infinity };
        if (cost[move.kind] <= actionsLeft) queue.push({ state: move.to, actionsLeft: actionsLeft - cost[move.kind] });
      }
    }
    return false;
  }

  /** All states that can be reached through states that `isInside` accepts. */
  reachableInside(start: State, isInside: (state: State) => boolean): State[] {
    const seen = new Map<string, State>();
    const queue = [start];
    for (let state = queue.pop(); state; state = queue.pop()) {
      if (!isInside(state) || seen.has(keyOf(state))) continue;
      seen.set(keyOf(state), state);
      queue.push(...this.movesFrom(state).map((move) => move.to));
    }
    return [...seen.values()];
  }

  countMoves(): number {
    return [...this.#moves.values()].reduce((sum, moves) => sum + moves.length, 0);
  }
}

/**
 * The rules that end each phase after its deadline. Rules of one phase cover different cases, so
 * all of them are required.
 */
type PhaseEnds = Partial<Record<BudgetPhase, readonly Cause[]>>;
const nodePhaseEnds: PhaseEnds = {
  provision: ['provision-deadline'],
  start: ['stuck-starting', 'start-deadline'],
  offline: ['offline-deadline'],
  rescue: ['rescue-over'],
  drain: ['drain-deadline'],
  clean: ['clean-deadline'],
};
/**
 * No rule ends the rescue window of a failed allocation: only time does. A provisioning allocation
 * has the deadline of its node, so its phase ends when the node fails.
 */
const allocationPhaseEnds: PhaseEnds = {
  queue: ['queue-deadline'],
  provision: ['node-failed'],
  release: ['release-deadline'],
  rescue: [],
};
const supervision: readonly Cause[] = ['liveness', 'node-lost'];

/** Checks a status against the guarantees of its class, and returns what is missing. */
const classChecks: Record<StatusClass, (status: StatusDeclaration, exits: Set<Cause>, ends: PhaseEnds) => string[]> = {
  moving: ({ deadline }, exits, ends) => {
    if (deadline === null) return ['is moving and has no deadline'];
    const rules = ends[deadline];
    if (!rules) return [`is moving and no rule ends its ${deadline} phase`];
    return rules.filter((rule) => !exits.has(rule)).map((rule) => `is moving and ${rule} does not end it`);
  },
  serving: (_, exits) => (supervision.some((rule) => exits.has(rule)) ? [] : ['is serving and nothing supervises it']),
  parked: (_, exits) =>
    [...exits].some((cause) => causes[cause].trigger === 'operator') ? [] : ['is parked and no action leads out'],
  terminal: (_, exits) => (exits.size === 0 ? [] : ['is terminal and has an exit']),
};

function findBrokenDeclarations<S extends string>(
  noun: string,
  statuses: Record<S, StatusDeclaration>,
  edges: readonly Edge<S>[],
  ends: PhaseEnds,
): Violation[] {
  return (Object.keys(statuses) as S[]).flatMap((name) => {
    const exits = new Set(edges.filter((edge) => edge.from === name).flatMap((edge) => edge.by));
    return classChecks[statuses[name].class](statuses[name], exits, ends).map((what) => ({
      where: `${noun} ${name}`,
      what,
    }));
  });
}

/** Finds edges out of `cleaning` that free a machine without proof that it is clean or gone. */
const findUnprovenReuse = (model: Model): Violation[] =>
  model.nodeEdges
    .filter((edge) => edge.from === 'cleaning' && !model.nodeStatuses[edge.to].fenced)
    .filter((edge) => edge.by.some((by) => by !== 'proof'))
    .map((edge) => ({ where: 'node cleaning', what: `becomes ${edge.to} without proof` }));

/** Finds statuses of a machine in which a release cannot start. */
const findUnreleasableStatuses = (model: Model): Violation[] =>
  (Object.keys(model.nodeStatuses) as NodeStatus[])
    .filter((status) => status !== 'cleaning' && model.nodeStatuses[status].class !== 'terminal')
    .filter((status) => !findEdge(model.nodeEdges, status, 'cleaning', 'release'))
    .map((status) => ({ where: `node ${status}`, what: 'no release can begin in this status' }));

/**
 * Finds states during a release in which the node could not retire although its machine is proven
 * gone.
 */
function findUnretirableStates(model: Model, exploration: Exploration): Violation[] {
  const start: State = { node: 'cleaning', allocation: 'releasing' };
  const releaseStates = exploration.reachableInside(start, ({ allocation }) => ownsCleanup(allocation));
  return releaseStates
    .filter(({ node }) => node !== 'none' && node !== 'retired')
    .filter(({ node }) => !findEdge(model.nodeEdges, node as NodeStatus, 'retired', 'proof'))
    .map((state) => ({ where: describeState(state), what: 'cannot be retired when its machine is proven gone' }));
}

function findMissingPairs(model: Model): Violation[] {
  return model.pairedChanges.flatMap(({ node, allocation }) => {
    const hasAllocationEdge = model.allocationEdges.some(
      (edge) => edge.from === allocation.from && edge.to === allocation.to && edge.by.includes(allocation.by),
    );
    const hasNodeEdges = node.from.every((from) =>
      model.nodeEdges.some((edge) => edge.from === from && edge.to === node.to),
    );
    const where = `the pair of node ${node.to} and allocation ${allocation.to}`;
    return [
      ...(hasAllocationEdge ? [] : [{ where, what: 'has no matching edge of the allocation' }]),
      ...(hasNodeEdges ? [] : [{ where, what: 'has no matching edge of the node' }]),
    ];
  });
}

/** Per status of the allocation, the statuses of its node that must have changed the allocation. */
const impossibleNodes: Partial<Record<AllocationPart, readonly NodePart[]>> = {
  provisioning: ['none', 'ready', 'degraded', 'failed', 'retired', 'quarantined'],
  active: ['none', 'failed', 'retired'],
};

const isOver = ({ node, allocation }: State) =>
  (node === 'none' || node === 'retired') && ['none', 'released', 'over'].includes(allocation);

function findBrokenStates(model: Model, exploration: Exploration): Violation[] {
  const classOfNode = (part: NodePart): StatusClass => (part === 'none' ? 'terminal' : model.nodeStatuses[part].class);
  const classOfAllocation = (part: AllocationPart): StatusClass =>
    part === 'none' || part === 'over' ? 'terminal' : model.allocationStatuses[part].class;

  return [...exploration.states.values()].flatMap((state) => {
    const problems: string[] = [];
    const sides = [
      {
        noun: 'node',
        name: `node ${state.node}`,
        class: classOfNode(state.node),
        hasLeft: (to: State) => to.node !== state.node,
      },
      {
        noun: 'allocation',
        name: `allocation ${state.allocation}`,
        class: classOfAllocation(state.allocation),
        hasLeft: (to: State) => to.allocation !== state.allocation,
      },
    ];
    const isNodeParked = classOfNode(state.node) === 'parked';
    const isReleasing = ownsCleanup(state.allocation);
    for (const side of sides) {
      if (side.class === 'moving' && !exploration.reaches(state, side.hasLeft, 0))
        problems.push(`${side.name} is never left by itself`);
      if (side.class === 'serving' && !isNodeParked && !exploration.reaches(state, side.hasLeft, 0))
        problems.push(`${side.name} is not supervised`);
      // During a release no action leads out of a quarantined node. That the release ends is
      // checked below.
      if (
        side.class === 'parked' &&
        !(isReleasing && side.noun === 'node') &&
        !exploration.movesFrom(state).some((move) => move.kind === 'operator' && side.hasLeft(move.to))
      )
        problems.push(`no action leads out of ${side.name}`);
    }
    if (impossibleNodes[state.allocation]?.includes(state.node))
      problems.push('the allocation does not follow its node');
    if (isReleasing && !exploration.reaches(state, (to) => to.allocation === 'released', 0))
      problems.push('the release never ends by itself');
    if (!exploration.reaches(state, isOver, 1))
      problems.push('cannot end by automatic moves and at most one operator action');
    return problems.map((what) => ({ where: describeState(state), what }));
  });
}

const findUnreachedStatuses = (noun: string, names: string[], seen: Set<string>): Violation[] =>
  names.filter((name) => !seen.has(name)).map((name) => ({ where: `${noun} ${name}`, what: 'is never reached' }));

export function checkModel(model: Model = slipwayModel): Proof {
  const exploration = new Exploration(model);
  const states = [...exploration.states.values()];
  return {
    states,
    moves: exploration.countMoves(),
    findings: [
      ...findBrokenDeclarations<NodeStatus>('node', model.nodeStatuses, model.nodeEdges, nodePhaseEnds),
      ...findBrokenDeclarations<AllocationStatus>(
        'allocation',
        model.allocationStatuses,
        model.allocationEdges,
        allocationPhaseEnds,
      ),
      ...findUnreachedStatuses('node', Object.keys(model.nodeStatuses), new Set(states.map((state) => state.node))),
      ...findUnreachedStatuses(
        'allocation',
        Object.keys(model.allocationStatuses),
        new Set(states.map((state) => state.allocation)),
      ),
      ...findMissingPairs(model),
      ...findUnprovenReuse(model),
      ...findUnreleasableStatuses(model),
      ...findUnretirableStates(model, exploration),
      ...findBrokenStates(model, exploration),
    ],
  };
}
