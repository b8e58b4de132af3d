/**
 * The one door, for nodes: the only code that writes a node's status. A call locks the rows, asks the transition table
 * and the instance fence, and writes rows and evidence in the caller's transaction, the paired change of the allocation
 * included. It takes lists, so that ten thousand rows cost as many statements as one.
 *
 * Lock order is nodes before allocations, everywhere, each in id order; so two doors never wait for each other in a ring.
 * The locks leave the key alone: whoever only refers to a node (an operation, a task) need not wait for its door.
 */
import type { NodeId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../../lifecycle/model/transitions.ts';
import { endedBoot, keepBootSamples } from '../boots/boot-samples.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { expectBeats, expectedBeat } from '../heartbeats/expected-heartbeats.ts';
import { byIds } from '../pg/by-ids.ts';
import type { Transaction } from '../pg/database.ts';
import { redactedRows, wordColumns } from '../pg/redacted-rows.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { documentOf } from '../rows/pools.ts';
import { type AllocationMove, moveAllocations, notifyAllocations, wordOf } from './allocation-transition.ts';
import { fillAllocationIds } from './amend-node.ts';
import { type Cited, entering, factOf, givenToBoot } from './entering-status.ts';
import type { NodeMove } from './node-move.ts';
import { insertRow, type Refusal, requireMoved, type TransitionEnvironment, writeChanged } from './transition-rules.ts';
import { isTold, recordWouldHave, wouldHave } from './would-have.ts';

export type NodeMoveOutcome =
  | { moved: true; node: NodeRow; from: NodeStatus }
  | { moved: false; because: Refusal; node: NodeRow | null };

interface LockedNode extends NodeRow {
  pool_document: PoolDocument;
}

const lockSql = (which: string) => `
  select node.*, ${documentOf} as pool_document from nodes node
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  where ${which} order by node.node_id for no key update of node`;

function refusalOf(node: LockedNode, move: NodeMove, { decide }: TransitionEnvironment): Refusal | undefined {
  if (move.node_instance_id && node.node_instance_id !== move.node_instance_id) return 'instance_fenced';
  if (node.status === move.to) return 'already_there';
  if (move.from && !move.from.includes(node.status)) return 'status_moved_on';
  if (!findEdge(nodeEdges, node.status, move.to, move.by)) return 'no_such_edge';
  // A person's word (a held verdict that is applied) goes also where rules only watch.
  const byItself = !move.actor;
  return byItself && decide.isObserveOnly(move.by, causes[move.by].trigger, node.pool_document.mode)
    ? 'observed'
    : undefined;
}

function wordTo(outcome: NodeMoveOutcome): { node_id: NodeId; word: string }[] {
  const word = outcome.moved && wordOf(outcome.from, outcome.node);
  return word ? [{ node_id: outcome.node.node_id, word }] : [];
}

/** What a move makes of a row, and all that is written because of it. */
function moved(locked: LockedNode, move: NodeMove, now: Date, environment: TransitionEnvironment) {
  const { status: from, status_since: standing_since } = locked;
  const set = {
    ...entering(from, move.to, move, locked.pool_document, givenToBoot(locked, move.to), now, environment),
    ...move.set,
  };
  const boot = endedBoot(locked, move, now);
  Object.assign(locked, set);
  const { pool_document: _, ...node } = locked;
  return {
    node,
    from,
    standing_since,
    set,
    boot,
    beat: expectedBeat(locked),
    fact: factOf(from, node, move, set, now),
  };
}

/**
 * Changes statuses of nodes, and of their allocations where the tables pair them. Answers in the order of `moves`.
 */
export async function transition(
  tx: Transaction,
  moves: NodeMove[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeMoveOutcome[]> {
  if (moves.length === 0) return [];
  const { which, value, how } = byIds('node.node_id', '$1', [...new Set(moves.map((move) => move.node_id))]);
  const rows = await tx.query<LockedNode>(lockSql(which), [value], how);
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
    const { node, from, standing_since, set, boot, beat, fact } = moved(locked, move, now, environment);
    boots.push(boot);
    beats.push(beat);
    changed.set(node.node_id, { ...changed.get(node.node_id), ...set });
    facts.push(fact);
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
  await notifyAllocations(tx, outcomes.flatMap(wordTo), now);
  requireMoved(await moveAllocations(tx, paired, now, environment), 'not_found', 'status_moved_on');
  await recordWouldHave(tx, watched, now);
  await fillAllocationIds(tx, facts);
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
function born(
  fresh: NewNode,
  pool: PoolDocument,
  cited: Cited,
  now: Date,
  environment: TransitionEnvironment,
): NodeRow {
  if (!findEdge(nodeEdges, 'new', 'provisioning', cited.by)) throw new Error(`${cited.by} does not create nodes`);
  return {
    ...fresh,
    clock_from: now,
    waiting_for: null,
    prerequisites: null,
    drain_then: null,
    ...entering('new', 'provisioning', cited, pool, fresh.requested_provision_seconds, now, environment),
    registered_at: null,
    endpoint: null,
    reported_status: null,
    observed_state: null,
    observed_at: null,
    restarts: 0,
    created_at: now,
  };
}

export async function createNode(
  tx: Transaction,
  fresh: NewNode,
  pool: PoolDocument,
  cited: Cited,
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeRow> {
  const node = born(fresh, pool, cited, now, environment);
  await insertRow(tx, 'nodes', { ...node });
  const facts = [factOf('new', node, cited, node, now)];
  await fillAllocationIds(tx, facts);
  await recordEvidence(tx, facts);
  return node;
}

/** One that comes by itself, and is there already: what it is born as nobody ever sees. */
export interface Newcomer {
  fresh: NewNode;
  pool: PoolDocument;
  cited: Cited;
  now: Date;
  /** Where its coming takes it in the same moment; of one that stays where it was born, nothing. */
  onward(node: NodeRow): NodeMove | undefined;
}

/** Their rows are written once, as they stand in the end, and told as two changes. Answers nothing of those whose name is taken. */
export async function createNewcomers(
  tx: Transaction,
  newcomers: readonly Newcomer[],
  environment: TransitionEnvironment,
): Promise<(NodeRow | undefined)[]> {
  const arrivals = newcomers.map(({ fresh, pool, cited, now, onward }) => {
    // Nobody's machine is looked up: one that was not there until now is held by nobody.
    const node = born(fresh, pool, cited, now, environment);
    const told = factOf('new', node, { ...cited, allocation_id: null }, node, now);
    const move = onward(node);
    if (!move) return { node, facts: [told], boot: undefined };
    const locked = { ...node, pool_document: pool };
    const refused = refusalOf(locked, move, environment);
    if (refused) throw new Error(`the start of ${node.node_id} was refused by the door: ${refused}`);
    const started = moved(locked, { ...move, allocation_id: null }, now, environment);
    return { node: started.node, facts: [told, started.fact], boot: started.boot };
  });
  const rows = arrivals.map(({ node }) => node);
  const written = new Set(await insertUnlessNamed(tx, rows));
  const there = arrivals.filter(({ node }) => written.has(node.node_id));
  await keepBootSamples(
    tx,
    there.map(({ boot }) => boot),
  );
  await recordEvidence(
    tx,
    there.flatMap(({ facts }) => facts),
  );
  return rows.map((node) => (written.has(node.node_id) ? node : undefined));
}

/** In the order of their names, so that two who write the same ones never wait for each other in a ring. */
async function insertUnlessNamed(tx: Transaction, rows: readonly NodeRow[]): Promise<NodeId[]> {
  const [first] = rows;
  if (!first) return [];
  const columns = Object.keys(first).join(', ');
  const inserted = await tx.query<{ node_id: NodeId }>(
    `insert into nodes (${columns}) select ${columns} from jsonb_populate_recordset(null::nodes, $1::jsonb) order by pool, name
     on conflict (pool, name) where status <> 'retired' do nothing returning node_id`,
    [redactedRows(tx.redact, rows, wordColumns)],
    { often: true },
  );
  return inserted.map(({ node_id }) => node_id);
}
