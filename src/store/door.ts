/**
 * The one door, for nodes: the only code that writes a node's status. A call locks the rows, asks the transition table
 * and the instance fence, and writes rows and evidence in the caller's transaction, the paired change of the allocation
 * included. It takes lists, so that ten thousand rows cost as many statements as one.
 *
 * Lock order is nodes before allocations, everywhere, each in id order; so two doors never wait for each other in a ring.
 * The locks leave the key alone: whoever only refers to a node (an operation, a task) need not wait for its door.
 */
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { PoolDocument } from '../contract/pool.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../lifecycle/transitions.ts';
import { nameAllocations } from './amend-node.ts';
import { endedBoot, keepBootSamples } from './boot-samples.ts';
import type { Transaction } from './database.ts';
import { type AllocationMove, moveAllocations, tellAllocations, wordOf } from './door-allocation.ts';
import { type Cited, entering, factOf, givenToBoot } from './door-entering.ts';
import { type DoorEnvironment, insertRow, type Refusal, writeChanged } from './door-rules.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import { expectBeats, expectedBeat } from './expected-beats.ts';
import type { NodeRow } from './nodes.ts';
import { documentOf } from './pools.ts';
import { isTold, tellWouldHave, wouldHave } from './would-have.ts';

/** Columns that a status change may write along with the status. */
export type NodeChanges = Partial<
  Pick<
    NodeRow,
    | 'node_instance_id'
    | 'workflow_id'
    | 'correlation_id'
    | 'registered_at'
    | 'endpoint'
    | 'reported_status'
    | 'observed_state'
    | 'observed_at'
    | 'pool_generation'
    | 'restarts'
    | 'drain_then'
    | 'prerequisites'
  >
>;

export interface NodeMove extends Cited {
  node_id: NodeId;
  to: NodeStatus;
  /** The instance this change is about; refused when the node has moved on to another. */
  node_instance_id?: NodeInstanceId;
  /** Only from these; otherwise the table alone decides. */
  from?: readonly NodeStatus[];
  set?: NodeChanges;
}

export type NodeMoveOutcome =
  | { moved: true; node: NodeRow; from: NodeStatus }
  | { moved: false; because: Refusal; node: NodeRow | null };

interface LockedNode extends NodeRow {
  pool_document: PoolDocument;
}

const lockSql = `
  select node.*, ${documentOf} as pool_document from nodes node
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  where node.node_id = any($1) order by node.node_id for no key update of node`;

function refusalOf(node: LockedNode, move: NodeMove, { decide }: DoorEnvironment): Refusal | undefined {
  if (move.node_instance_id && node.node_instance_id !== move.node_instance_id) return 'instance_fenced';
  if (node.status === move.to) return 'already_there';
  if (move.from && !move.from.includes(node.status)) return 'status_moved_on';
  if (!findEdge(nodeEdges, node.status, move.to, move.by)) return 'no_such_edge';
  // A person's word (a held verdict that is applied) goes also where rules only watch.
  const byItself = !move.actor;
  return byItself && decide.isObserved(move.by, causes[move.by].trigger, node.pool_document.mode)
    ? 'observed'
    : undefined;
}

function wordTo(outcome: NodeMoveOutcome): { node_id: NodeId; word: string }[] {
  const word = outcome.moved && wordOf(outcome.from, outcome.node);
  return word ? [{ node_id: outcome.node.node_id, word }] : [];
}

/**
 * Changes statuses of nodes, and of their allocations where the tables pair them. Answers in the order of `moves`.
 */
export async function transition(
  tx: Transaction,
  moves: NodeMove[],
  now: Date,
  environment: DoorEnvironment,
): Promise<NodeMoveOutcome[]> {
  if (moves.length === 0) return [];
  const rows = await tx.query<LockedNode>(lockSql, [moves.map((move) => move.node_id)]);
  const nodes = new Map(rows.map((row) => [row.node_id, row]));
  const changed = new Map<NodeId, object>();
  const facts: Fact[] = [];
  const paired: AllocationMove[] = [];
  const boots: ReturnType<typeof endedBoot>[] = [];
  const beats: ReturnType<typeof expectedBeat>[] = [];
  const watched: ReturnType<typeof wouldHave>[] = [];

  const outcomes = moves.map((move): NodeMoveOutcome => {
    const locked = nodes.get(move.node_id);
    if (!locked) return { moved: false, because: 'not_found', node: null };
    const refused = refusalOf(locked, move, environment);
    if (refused === 'observed' && !isTold(locked, move)) watched.push(wouldHave(locked, move, now));
    if (refused) return { moved: false, because: refused, node: locked };
    const { status: from, status_since: standing_since } = locked;
    const set = {
      ...entering(from, move.to, move, locked.pool_document, givenToBoot(locked, move.to), now, environment),
      ...move.set,
    };
    boots.push(endedBoot(locked, move, now));
    Object.assign(locked, set);
    beats.push(expectedBeat(locked));
    const { pool_document: _, ...node } = locked;
    changed.set(node.node_id, { ...changed.get(node.node_id), ...set });
    facts.push(factOf(from, node, move, set, now));
    // Whose node nobody's is, is known under its lock.
    for (const pair of move.allocation_id === null ? [] : pairedWith(from, move.to)) {
      paired.push({
        ...move,
        set: undefined,
        allocation_id: undefined,
        node_id: node.node_id,
        from: [pair.from],
        to: pair.to,
        by: pair.by,
        node,
        ...(pair.by === 'rescue' && { standing_since }),
      });
    }
    return { moved: true, node, from };
  });

  await writeChanged(tx, 'nodes', 'node_id', changed);
  await keepBootSamples(tx, boots);
  await expectBeats(tx, beats);
  await tellAllocations(tx, outcomes.flatMap(wordTo), now);
  await moveAllocations(tx, paired, now, environment);
  await tellWouldHave(tx, watched, now);
  await nameAllocations(tx, facts);
  await recordEvidence(tx, facts);
  return outcomes;
}

export type NewNode = Pick<
  NodeRow,
  | 'node_id'
  | 'pool'
  | 'pool_generation'
  | 'name'
  | 'zone'
  | 'node_instance_id'
  | 'workflow_id'
  | 'correlation_id'
  | 'requested_provision_seconds'
  | 'labels'
>;

/** The edge from nothing: a node enters as `provisioning`. */
export async function createNode(
  tx: Transaction,
  fresh: NewNode,
  pool: PoolDocument,
  cited: Cited,
  now: Date,
  environment: DoorEnvironment,
): Promise<NodeRow> {
  if (!findEdge(nodeEdges, 'new', 'provisioning', cited.by)) throw new Error(`${cited.by} does not create nodes`);
  const set = entering('new', 'provisioning', cited, pool, fresh.requested_provision_seconds, now, environment);
  const node: NodeRow = {
    ...fresh,
    clock_from: now,
    waiting_for: null,
    prerequisites: null,
    drain_then: null,
    ...set,
    registered_at: null,
    endpoint: null,
    reported_status: null,
    observed_state: null,
    observed_at: null,
    restarts: 0,
    created_at: now,
  };
  await insertRow(tx, 'nodes', { ...node });
  const facts = [factOf('new', node, cited, node, now)];
  await nameAllocations(tx, facts);
  await recordEvidence(tx, facts);
  return node;
}
