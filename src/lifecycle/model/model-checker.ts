/**
 * Proves that no node or allocation can get stuck, by exploring every state they can reach
 * together.
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
  /**
   * The status or state at fault: `node cleaning`, `node quarantined with allocation provisioning`.
   */
  where: string;
  what: string;
}

export interface Proof {
  states: State[];
  moves: number;
  findings: Violation[];
}

const keyOf = (state: State) => `${state.node}/${state.allocation}`;
const wordsOf = (state: State) => `node ${state.node} with allocation ${state.allocation}`;

class Exploration {
  readonly states = new Map<string, State>();
  readonly #moves = new Map<string, Move[]>();

  constructor(model: Model) {
    const waiting: State[] = [{ node: 'none', allocation: 'none' }];
    for (let state = waiting.pop(); state; state = waiting.pop()) {
      if (this.states.has(keyOf(state))) continue;
      const moves = movesFrom(model, state);
      this.states.set(keyOf(state), state);
      this.#moves.set(keyOf(state), moves);
      waiting.push(...moves.map((move) => move.to));
    }
  }

  movesFrom(state: State): Move[] {
    return this.#moves.get(keyOf(state)) ?? [];
  }

  /** Whether automatic moves and at most this many operator moves lead to a goal. */
  reaches(start: State, isGoal: (state: State) => boolean, operatorActions: number): boolean {
    const seen = new Set<string>();
    const waiting = [{ state: start, left: operatorActions }];
    for (let here = waiting.pop(); here; here = waiting.pop()) {
      if (isGoal(here.state)) return true;
      const key = `${keyOf(here.state)}/${here.left}`;
      if (seen.has(key)) continue;
      seen.add(key);
      for (const move of this.movesFrom(here.state)) {
        const cost: Record<MoveKind, number> = { automatic: 0, operator: 1, chance: Infinity, view: Infinity };
        if (cost[move.kind] <= here.left) waiting.push({ state: move.to, left: here.left - cost[move.kind] });
      }
    }
    return false;
  }

  /** All states reachable without leaving the states that `stays` accepts. */
  within(start: State, stays: (state: State) => boolean): State[] {
    const seen = new Map<string, State>();
    const waiting = [start];
    for (let here = waiting.pop(); here; here = waiting.pop()) {
      if (!stays(here) || seen.has(keyOf(here))) continue;
      seen.set(keyOf(here), here);
      waiting.push(...this.movesFrom(here).map((move) => move.to));
    }
    return [...seen.values()];
  }

  count(): number {
    return [...this.#moves.values()].reduce((sum, moves) => sum + moves.length, 0);
  }
}

/**
 * The rules that end a phase after its deadline. Each covers a different case, so all are required.
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
 * A failed allocation's window ends by time alone. A provisioning allocation shares its node's
 * deadline.
 */
const allocationPhaseEnds: PhaseEnds = {
  queue: ['queue-deadline'],
  provision: ['node-failed'],
  release: ['release-deadline'],
  rescue: [],
};
const supervision: readonly Cause[] = ['liveness', 'node-lost'];

/** Returns what a status lacks of the guarantees of its class. */
const classPromises: Record<StatusClass, (status: StatusDeclaration, exits: Set<Cause>, ends: PhaseEnds) => string[]> =
  {
    moving: ({ deadline }, exits, ends) => {
      if (deadline === null) return ['is moving and has no deadline'];
      const rules = ends[deadline];
      if (!rules) return [`is moving and no rule ends its ${deadline} phase`];
      return rules.filter((rule) => !exits.has(rule)).map((rule) => `is moving and ${rule} does not end it`);
    },
    serving: (_, exits) =>
      supervision.some((rule) => exits.has(rule)) ? [] : ['is serving and nothing supervises it'],
    parked: (_, exits) =>
      [...exits].some((cause) => causes[cause].trigger === 'operator') ? [] : ['is parked and no action leads out'],
    terminal: (_, exits) => (exits.size === 0 ? [] : ['is terminal and has an exit']),
  };

function brokenDeclarations<S extends string>(
  noun: string,
  statuses: Record<S, StatusDeclaration>,
  edges: readonly Edge<S>[],
  ends: PhaseEnds,
): Violation[] {
  return (Object.keys(statuses) as S[]).flatMap((name) => {
    const exits = new Set(edges.filter((edge) => edge.from === name).flatMap((edge) => edge.by));
    return classPromises[statuses[name].class](statuses[name], exits, ends).map((what) => ({
      where: `${noun} ${name}`,
      what,
    }));
  });
}

/** A machine becomes free again only with a proof that it is clean or gone. */
const unprovenReuse = (model: Model): Violation[] =>
  model.nodeEdges
    .filter((edge) => edge.from === 'cleaning' && !model.nodeStatuses[edge.to].fenced)
    .filter((edge) => edge.by.some((by) => by !== 'proof'))
    .map((edge) => ({ where: 'node cleaning', what: `becomes ${edge.to} without proof` }));

/** A release can start whatever the status of its machine. */
const unreleasable = (model: Model): Violation[] =>
  (Object.keys(model.nodeStatuses) as NodeStatus[])
    .filter((status) => status !== 'cleaning' && model.nodeStatuses[status].class !== 'terminal')
    .filter((status) => !findEdge(model.nodeEdges, status, 'cleaning', 'release'))
    .map((status) => ({ where: `node ${status}`, what: 'no release can begin here' }));

/**
 * A release can end with the proof that the machine is gone, and the node must then be able to
 * retire.
 */
function unretiredProofs(model: Model, exploration: Exploration): Violation[] {
  const start: State = { node: 'cleaning', allocation: 'releasing' };
  const during = exploration.within(start, ({ allocation }) => ownsCleanup(allocation));
  return during
    .filter(({ node }) => node !== 'none' && node !== 'retired')
    .filter(({ node }) => !findEdge(model.nodeEdges, node as NodeStatus, 'retired', 'proof'))
    .map((state) => ({ where: wordsOf(state), what: 'cannot be retired when its machine is proven gone' }));
}

function missingPairs(model: Model): Violation[] {
  return model.pairedChanges.flatMap(({ node, allocation }) => {
    const allowed = model.allocationEdges.some(
      (edge) => edge.from === allocation.from && edge.to === allocation.to && edge.by.includes(allocation.by),
    );
    const real = node.from.every((from) => model.nodeEdges.some((edge) => edge.from === from && edge.to === node.to));
    const where = `the pair of node ${node.to} and allocation ${allocation.to}`;
    return [
      ...(allowed ? [] : [{ where, what: 'is no edge of the allocation' }]),
      ...(real ? [] : [{ where, what: 'is no edge of the node' }]),
    ];
  });
}

/** Statuses of the node that should have changed the allocation's status, but did not. */
const unfollowed: Partial<Record<AllocationPart, readonly NodePart[]>> = {
  provisioning: ['none', 'ready', 'degraded', 'failed', 'retired', 'quarantined'],
  active: ['none', 'failed', 'retired'],
};

const isOver = ({ node, allocation }: State) =>
  (node === 'none' || node === 'retired') && ['none', 'released', 'over'].includes(allocation);

function brokenStates(model: Model, exploration: Exploration): Violation[] {
  const classOfNode = (part: NodePart): StatusClass => (part === 'none' ? 'terminal' : model.nodeStatuses[part].class);
  const classOfAllocation = (part: AllocationPart): StatusClass =>
    part === 'none' || part === 'over' ? 'terminal' : model.allocationStatuses[part].class;

  return [...exploration.states.values()].flatMap((state) => {
    const found: string[] = [];
    const sides = [
      {
        of: 'node',
        name: `node ${state.node}`,
        class: classOfNode(state.node),
        left: (to: State) => to.node !== state.node,
      },
      {
        of: 'allocation',
        name: `allocation ${state.allocation}`,
        class: classOfAllocation(state.allocation),
        left: (to: State) => to.allocation !== state.allocation,
      },
    ];
    const parked = classOfNode(state.node) === 'parked';
    const released = ownsCleanup(state.allocation);
    for (const side of sides) {
      if (side.class === 'moving' && !exploration.reaches(state, side.left, 0))
        found.push(`${side.name} is never left by itself`);
      if (side.class === 'serving' && !parked && !exploration.reaches(state, side.left, 0))
        found.push(`${side.name} is not supervised`);
      // A node that was quarantined during a release leaves when the release ends; checked below.
      if (
        side.class === 'parked' &&
        !(released && side.of === 'node') &&
        !exploration.movesFrom(state).some((move) => move.kind === 'operator' && side.left(move.to))
      )
        found.push(`no action leads out of ${side.name}`);
    }
    if (unfollowed[state.allocation]?.includes(state.node)) found.push('the allocation does not follow its node');
    if (released && !exploration.reaches(state, (to) => to.allocation === 'released', 0))
      found.push('the release never ends by itself');
    if (!exploration.reaches(state, isOver, 1)) found.push('no end can be reached by itself and one action');
    return found.map((what) => ({ where: wordsOf(state), what }));
  });
}

const unreached = (noun: string, names: string[], seen: Set<string>): Violation[] =>
  names.filter((name) => !seen.has(name)).map((name) => ({ where: `${noun} ${name}`, what: 'is never reached' }));

export function checkModel(model: Model = slipwayModel): Proof {
  const exploration = new Exploration(model);
  const states = [...exploration.states.values()];
  return {
    states,
    moves: exploration.count(),
    findings: [
      ...brokenDeclarations<NodeStatus>('node', model.nodeStatuses, model.nodeEdges, nodePhaseEnds),
      ...brokenDeclarations<AllocationStatus>(
        'allocation',
        model.allocationStatuses,
        model.allocationEdges,
        allocationPhaseEnds,
      ),
      ...unreached('node', Object.keys(model.nodeStatuses), new Set(states.map((state) => state.node))),
      ...unreached(
        'allocation',
        Object.keys(model.allocationStatuses),
        new Set(states.map((state) => state.allocation)),
      ),
      ...missingPairs(model),
      ...unprovenReuse(model),
      ...unreleasable(model),
      ...unretiredProofs(model, exploration),
      ...brokenStates(model, exploration),
    ],
  };
}
