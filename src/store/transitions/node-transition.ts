/**
 * The only writer of a node's status. A call locks the rows, checks the transition table and the
 * instance fence, and writes rows and evidence in the caller's transaction, including the paired
 * change of the allocation. The number of statements does not depend on the number of moves.
 *
 * To avoid deadlocks, nodes are locked before allocations everywhere, each in id order. The locks
 * are `no key`, so rows that only refer to a node (an operation, a task) can still be inserted.
 */
import type { NodeId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../../lifecycle/model/transitions.ts';
import { storeBootSamples, toBootSample } from '../boots/boot-samples.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { expectBeats, toExpectedBeat } from '../heartbeats/expected-heartbeats.ts';
import { byIds } from '../pg/by-ids.ts';
import type { Transaction } from '../pg/database.ts';
import { redactRows, textColumns } from '../pg/redacted-rows.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { documentOfGeneration } from '../rows/pools.ts';
import { type AllocationMove, moveAllocations, noticeOf, notifyAllocations } from './allocation-transition.ts';
import { fillAllocationIds } from './amend-node.ts';
import { computeStatusColumns, factOf, resolveRequestedSeconds, type TransitionCause } from './entering-status.ts';
import type { NodeMove } from './node-move.ts';
import { insertRow, type Refusal, requireMoved, type TransitionEnvironment, writeChanged } from './transition-rules.ts';
import { isRecorded, recordWouldHave, toObservedMove } from './would-have.ts';

export type NodeMoveOutcome =
  | { moved: true; node: NodeRow; from: NodeStatus }
  | { moved: false; because: Refusal; node: NodeRow | null };

interface LockedNode extends NodeRow {
  pool_document: PoolDocument;
}

const lockSql = (condition: string) => `
  select node.*, ${documentOfGeneration} as pool_document
  from nodes node
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  where ${condition}
  order by node.node_id
  for no key update of node`;

function refusalOf(node: LockedNode, move: NodeMove, { decide }: TransitionEnvironment): Refusal | undefined {
  if (move.node_instance_id && node.node_instance_id !== move.node_instance_id) return 'instance_fenced';
  if (node.status === move.to) return 'already_there';
  if (move.from && !move.from.includes(node.status)) return 'status_moved_on';
  if (!findEdge(nodeEdges, node.status, move.to, move.by)) return 'no_such_edge';
  // A person may move a node of an observe-only pool, for example by applying a held verdict.
  const isAutomatic = !move.actor;
  return isAutomatic && decide.isObserveOnly(move.by, causes[move.by].trigger, node.pool_document.mode)
    ? 'observe_only'
    : undefined;
}

function noticesOf(outcome: NodeMoveOutcome): { node_id: NodeId; reason: string }[] {
  const reason = outcome.moved && noticeOf(outcome.from, outcome.node);
  return reason ? [{ node_id: outcome.node.node_id, reason }] : [];
}

/** Applies a move to a locked row in memory and returns everything that has to be written. */
function applyMove(locked: LockedNode, move: NodeMove, now: Date, environment: TransitionEnvironment) {
  const { status: from, status_since: from_since } = locked;
  const set = {
    ...computeStatusColumns(
      from,
      move.to,
      move,
      locked.pool_document,
      resolveRequestedSeconds(locked, move.to),
      now,
      environment,
    ),
    ...move.set,
  };
  const boot = toBootSample(locked, move, now);
  Object.assign(locked, set);
  const { pool_document: _, ...node } = locked;
  return {
    node,
    from,
    from_since,
    set,
    boot,
    beat: toExpectedBeat(locked),
    fact: factOf(from, node, move, set, now),
  };
}

/** Changes statuses of nodes and paired allocations. Returns outcomes in the order of `moves`. */
export async function transition(
  tx: Transaction,
  moves: NodeMove[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeMoveOutcome[]> {
  if (moves.length === 0) return [];
  const { condition, value, options } = byIds('node.node_id', '$1', [...new Set(moves.map((move) => move.node_id))]);
  const rows = await tx.query<LockedNode>(lockSql(condition), [value], options);
  const nodes = new Map(rows.map((row) => [row.node_id, row]));
  const changed = new Map<NodeId, object>();
  const facts: Fact[] = [];
  const paired: AllocationMove[] = [];
  const boots: ReturnType<typeof toBootSample>[] = [];
  const beats: ReturnType<typeof toExpectedBeat>[] = [];
  const observed: ReturnType<typeof toObservedMove>[] = [];

  const outcomes = moves.map((move): NodeMoveOutcome => {
    const locked = nodes.get(move.node_id);
    if (!locked) return { moved: false, because: 'not_found', node: null };
    const refusal = refusalOf(locked, move, environment);
    if (refusal === 'observe_only' && !isRecorded(locked, move)) observed.push(toObservedMove(locked, move, now));
    if (refusal) return { moved: false, because: refusal, node: locked };
    const { node, from, from_since, set, boot, beat, fact } = applyMove(locked, move, now, environment);
    boots.push(boot);
    beats.push(beat);
    changed.set(node.node_id, { ...changed.get(node.node_id), ...set });
    facts.push(fact);
    // The row lock keeps the holding allocation from changing. `allocation_id: null` means that the
    // caller found no holder.
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
        ...(pair.by === 'rescue' && { failed_at: from_since }),
      });
    }
    return { moved: true, node, from };
  });

  await writeChanged(tx, 'nodes', 'node_id', changed);
  await storeBootSamples(tx, boots);
  await expectBeats(tx, beats);
  await notifyAllocations(tx, outcomes.flatMap(noticesOf), now);
  requireMoved(await moveAllocations(tx, paired, now, environment), 'not_found', 'status_moved_on');
  await recordWouldHave(tx, observed, now);
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

/** Builds the row of a new node with the status `provisioning`. */
function buildNodeRow(
  fresh: NewNode,
  pool: PoolDocument,
  cause: TransitionCause,
  now: Date,
  environment: TransitionEnvironment,
): NodeRow {
  if (!findEdge(nodeEdges, 'new', 'provisioning', cause.by)) throw new Error(`${cause.by} does not create nodes`);
  return {
    ...fresh,
    clock_from: now,
    waiting_for: null,
    prerequisites: null,
    drain_then: null,
    ...computeStatusColumns('new', 'provisioning', cause, pool, fresh.requested_provision_seconds, now, environment),
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
  cause: TransitionCause,
  now: Date,
  environment: TransitionEnvironment,
): Promise<NodeRow> {
  const node = buildNodeRow(fresh, pool, cause, now, environment);
  await insertRow(tx, 'nodes', { ...node });
  const facts = [factOf('new', node, cause, node, now)];
  await fillAllocationIds(tx, facts);
  await recordEvidence(tx, facts);
  return node;
}

/** A machine that joins by itself. Its first status is never visible if a move follows. */
export interface Newcomer {
  fresh: NewNode;
  pool: PoolDocument;
  cause: TransitionCause;
  now: Date;
  /** The move that follows in the same transaction, if any. */
  planMove(node: NodeRow): NodeMove | undefined;
}

/** Writes each row once, with evidence of both changes. Returns undefined for a taken name. */
export async function createNewcomers(
  tx: Transaction,
  newcomers: readonly Newcomer[],
  environment: TransitionEnvironment,
): Promise<(NodeRow | undefined)[]> {
  const arrivals = newcomers.map(({ fresh, pool, cause, now, planMove }) => {
    const node = buildNodeRow(fresh, pool, cause, now, environment);
    // A new machine has no holder, and null saves the lookup.
    const created = factOf('new', node, { ...cause, allocation_id: null }, node, now);
    const move = planMove(node);
    if (!move) return { node, facts: [created], boot: undefined };
    const locked = { ...node, pool_document: pool };
    const refusal = refusalOf(locked, move, environment);
    if (refusal) throw new Error(`the start of ${node.node_id} was refused by its transition: ${refusal}`);
    const started = applyMove(locked, { ...move, allocation_id: null }, now, environment);
    return { node: started.node, facts: [created, started.fact], boot: started.boot };
  });
  const rows = arrivals.map(({ node }) => node);
  const written = new Set(await insertUnlessNameTaken(tx, rows));
  const inserted = arrivals.filter(({ node }) => written.has(node.node_id));
  await storeBootSamples(
    tx,
    inserted.map(({ boot }) => boot),
  );
  await recordEvidence(
    tx,
    inserted.flatMap(({ facts }) => facts),
  );
  return rows.map((node) => (written.has(node.node_id) ? node : undefined));
}

/** Inserts rows in the order of their names, so that two batches cannot deadlock. */
async function insertUnlessNameTaken(tx: Transaction, rows: readonly NodeRow[]): Promise<NodeId[]> {
  const [first] = rows;
  if (!first) return [];
  const columns = Object.keys(first).join(', ');
  const inserted = await tx.query<{ node_id: NodeId }>(
    `insert into nodes (${columns})
     select ${columns}
     from jsonb_populate_recordset(null::nodes, $1::jsonb)
     order by pool, name
     on conflict (pool, name) where status <> 'retired' do nothing
     returning node_id`,
    [redactRows(tx.redact, rows, textColumns)],
    { prepared: true },
  );
  return inserted.map(({ node_id }) => node_id);
}
