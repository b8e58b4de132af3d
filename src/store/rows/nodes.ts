/** Reads nodes. Their statuses are written in store/transitions only. */
import { iso } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, WorkflowId } from '../../base/ids.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import type { BudgetSource, Held, Node, NodeState, Verdict, WouldHave } from '../../contract/node.ts';
import type { Labels } from '../../contract/primitives.ts';
import { timeOnlyRules } from '../../lifecycle/deadlines/rescue-window.ts';
import { settledAfterForceWords } from '../../lifecycle/explain/explain.ts';
import type { Prerequisites } from '../../lifecycle/model/reports.ts';
import {
  type AllocationStatus,
  holdingStatuses,
  isFenced,
  type NodeStatus,
  nodeStatuses,
  occupancyOf,
} from '../../lifecycle/model/states.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { andAll, everHeldNodes, heldNodes } from '../visibility.ts';
import { hasResidue } from './node-residue.ts';

export interface NodeRow {
  node_id: NodeId;
  pool: string;
  pool_generation: number;
  name: string;
  zone: string | null;
  status: NodeStatus;
  status_since: Date;
  node_instance_id: NodeInstanceId | null;
  workflow_id: WorkflowId | null;
  correlation_id: CorrelationId | null;
  registered_at: Date | null;
  deadline_at: Date | null;
  budget_seconds: number | null;
  budget_source: BudgetSource | null;
  requested_provision_seconds: number | null;
  endpoint: string | null;
  reported_status: string | null;
  observed_state: string | null;
  observed_at: Date | null;
  held: Held | null;
  verdict: Verdict | null;
  /** The verdict that a rule of an observe-only pool would have given. */
  would_have: WouldHave | null;
  /** The boot is timed from here: the start of `provisioning`, or later the grant of capacity. */
  clock_from: Date | null;
  waiting_for: string | null;
  prerequisites: Prerequisites;
  drain_then: 'hold' | 'retire' | null;
  restarts: number;
  labels: Labels;
  created_at: Date;
}

export interface JoinedRow extends NodeRow {
  allocation_id: AllocationId | null;
  allocation_status: AllocationStatus | null;
  has_residue: boolean;
  agent_version: string | null;
  last_seen_at: Date | null;
  stale_seconds: number | null;
  reported: Record<string, unknown> | null;
}

/** Joins the allocation that holds `node`, with the alias `holder`. */
export const withHolder = `left join lateral (
    select allocation_id, status from allocations
    where node_id = node.node_id
      and (
        status in ('provisioning', 'active', 'releasing', 'release_failed')
        -- A failed allocation holds its node only while it can still be rescued.
        or (status = 'failed' and node.status = 'failed')
      )
    order by allocation_id desc
    limit 1
  ) holder on true`;

/** Selects nodes with the columns of `JoinedRow`. `from` must use the alias `node`. */
export const selectJoined = (from: string) => `
  select node.*,
    holder.allocation_id, holder.status as allocation_status,
    instance.agent_version,
    beat.last_seen_at, beat.stale_seconds, beat.reported,
    ${hasResidue} as has_residue
  from ${from}
  left join instances instance on instance.node_instance_id = node.node_instance_id
  left join heartbeats beat on beat.node_instance_id = node.node_instance_id
  ${withHolder}`;

const joinedNodes = selectJoined('nodes node');

/** The condition of `withHolder` in code, for rows that were rebuilt from evidence. */
export const holdsNode = (allocation: AllocationStatus, node: NodeStatus): boolean =>
  allocation === 'failed' ? node === 'failed' : (holdingStatuses as readonly string[]).includes(allocation);

function fenceReason(row: NodeRow): string | null {
  if (!isFenced(row.status)) return null;
  return row.verdict?.reason ?? nodeStatuses[row.status].means;
}

type RowWithHolder = NodeRow & Pick<JoinedRow, 'allocation_id' | 'allocation_status'>;

/** While a failed release waits for its retry, the deadline of the last attempt is void. */
const deadlineOf = ({ status, allocation_status, deadline_at, budget_seconds, budget_source }: RowWithHolder) =>
  status === 'cleaning' && allocation_status === 'release_failed'
    ? { deadline_at: null, budget_seconds: null, budget_source: null }
    : { deadline_at: iso(deadline_at), budget_seconds, budget_source };

/** The fields that transitions write. Only these can be rebuilt from evidence. */
export const stateWire = (row: RowWithHolder): Omit<NodeState, 'at' | 'cursor'> => ({
  node_id: row.node_id,
  node_instance_id: row.node_instance_id,
  pool: row.pool,
  name: row.name,
  zone: row.zone,
  status: row.status,
  status_since: row.status_since.toISOString(),
  fenced: isFenced(row.status),
  fence_reason: fenceReason(row),
  allocation_id: row.allocation_id,
  workflow_id: row.workflow_id,
  registered_at: iso(row.registered_at),
  ...deadlineOf(row),
  endpoint: row.endpoint,
  reported_status: row.reported_status,
  // The provider's last state is outdated once the machine is proven gone.
  observed:
    row.status !== 'retired' && row.observed_state && row.observed_at
      ? { state: row.observed_state, at: row.observed_at.toISOString() }
      : null,
  held: row.held,
  verdict: row.verdict,
  would_have: row.would_have,
  waiting_for: row.waiting_for,
  restarts: row.restarts,
  labels: row.labels,
  created_at: row.created_at.toISOString(),
});

/**
 * Whether the residue of a forced release is settled, so that the node waits only for an operator.
 */
const isSettled = ({ status, verdict, has_residue }: JoinedRow) =>
  status === 'quarantined' && verdict?.rule === 'force-release' && !has_residue;

export function nodeWire(row: JoinedRow): Node {
  const { reported_status, ...state } = stateWire(row);
  return {
    ...state,
    ...(isSettled(row) && { fence_reason: settledAfterForceWords }),
    occupancy: occupancyOf(row.allocation_status, row.has_residue),
    agent_version: row.agent_version,
    last_seen_at: iso(row.last_seen_at),
    reported: reported_status || row.reported ? { ...row.reported, status: reported_status } : null,
  };
}

/** A tenant sees only the nodes that its allocations hold now. */
export async function readNodes(db: Queryable, ids: readonly string[], visibility: Visibility): Promise<Node[]> {
  const { values, bind } = parameters();
  const rows = await db.query<JoinedRow>(
    `${joinedNodes}
     where node.node_id = any(${bind(ids)}) ${andAll(heldNodes(visibility, bind))}`,
    values,
  );
  return rows.map(nodeWire);
}

export async function readNode(db: Queryable, id: string, visibility: Visibility): Promise<Node | undefined> {
  const row = await joinedRow(db, id, visibility);
  return row && nodeWire(row);
}

/**
 * Reads one node, the most frequent read. Prepared, because planning takes ten times as long as
 * running.
 */
export async function joinedRow(db: Queryable, id: string, visibility: Visibility): Promise<JoinedRow | undefined> {
  const { values, bind } = parameters();
  const [row] = await db.query<JoinedRow>(
    `${joinedNodes}
     where node.node_id = ${bind(id)} ${andAll(heldNodes(visibility, bind))}`,
    values,
    { prepared: true },
  );
  return row;
}

/**
 * Reads the live nodes of a pool that registered through a foreign protocol: all of them, or the
 * one with this name.
 */
export async function readProtocolNodes(
  db: Queryable,
  { pool, protocol, name }: { pool: string; protocol: Protocol; name?: string },
): Promise<Node[]> {
  const rows = await db.query<JoinedRow>(
    `${joinedNodes}
     where node.pool = $1
       and node.status <> 'retired'
       and exists (
         select 1 from instances current
         where current.node_instance_id = node.node_instance_id and current.door = $2)
       ${name === undefined ? '' : 'and node.name = $3'}
     order by node.name
     limit 1000`,
    [pool, protocol, ...(name === undefined ? [] : [name])],
  );
  return rows.map(nodeWire);
}

export async function nodeRow(db: Queryable, id: string): Promise<NodeRow | undefined> {
  return (await db.query<NodeRow>('select * from nodes where node_id = $1', [id], { prepared: true }))[0];
}

/**
 * Reads nodes of these drivers that may still come back before their deadline: first the offline
 * ones, then those that a rule failed only because time ran out.
 */
export function findMachinesInDoubt(
  db: Queryable,
  drivers: string[],
  now: Date,
  limit: number,
  excludedIds: readonly string[],
): Promise<NodeRow[]> {
  return db.query<NodeRow>(
    `select node.*
     from nodes node
     join pools pool on pool.name = node.pool
     where (
         node.status = 'offline'
         or (
           node.status = 'failed'
           and node.verdict ->> 'rule' = any($5)
           and not node.verdict ? 'certain'
         )
       )
       and node.deadline_at > $2
       and pool.driver = any($1)
       and node.node_instance_id is not null
       and node.node_id <> all($4)
     order by node.status = 'failed', node.status_since
     limit $3`,
    [drivers, now, limit, excludedIds, timeOnlyRules],
  );
}

/** Bounds the read in a fleet where no agent reports ready. */
const maxNeverReady = 10_000;

/**
 * Counts nodes that a rule had to promote because they never reported ready, by pool and agent
 * version.
 */
export function countNeverReady(
  db: Queryable,
): Promise<{ pool: string; agent_version: string | null; nodes: number }[]> {
  return db.query(
    `select node.pool, instance.agent_version, count(*)::int as nodes
     from (
       select pool, node_instance_id from nodes
       where (verdict ->> 'rule') = 'stuck-starting'
       limit ${maxNeverReady}
     ) node
     join instances instance on instance.node_instance_id = node.node_instance_id
     group by 1, 2
     order by 3 desc, 1, 2`,
  );
}

export async function lockNode(tx: Transaction, id: string): Promise<NodeRow | undefined> {
  return (
    await tx.query<NodeRow>('select * from nodes where node_id = $1 for no key update', [id], { prepared: true })
  )[0];
}

/** Reads the maintained counts, so the cost does not depend on the pool's size. */
export async function countLiveNodes(db: Queryable, pool: string): Promise<number> {
  const [row] = await db.query<{ live: number }>(
    `select coalesce(sum(change), 0)::int as live
     from counts
     where of = 'nodes'
       and pool = $1
       and status <> 'retired'`,
    [pool],
    { prepared: true },
  );
  return row?.live ?? 0;
}

/**
 * Whether the node exists. For a tenant, one of its allocations must also hold the node, or have
 * held it.
 */
export async function isKnownNode(db: Queryable, id: string, visibility: Visibility): Promise<boolean> {
  const { values, bind } = parameters();
  const node_id = bind(id);
  const rows = await db.query(
    `select 1 from nodes
     where node_id = ${node_id} ${andAll(everHeldNodes(visibility, node_id, bind))}`,
    values,
  );
  return rows.length > 0;
}
