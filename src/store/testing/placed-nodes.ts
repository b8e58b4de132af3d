/** For tests and benchmarks: inserts nodes in any status directly by SQL. */
import { secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { leaseSeconds } from '../operations/replicas.ts';
import type { Database } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

export interface PlacedNodes {
  pool: string;
  zone?: string | null;
  count: number;
  /** The number of nodes that the pool has already. Names and ids continue from there. */
  after?: number;
  status?: NodeStatus;
  labels?: Record<string, string>;
  /** The `status_since` of the nodes. */
  since: Date;
  deadline_at?: Date | null;
}

const insertNodes = `
  with placed as (
    insert into nodes (
      node_id, pool, pool_generation, name, zone, status, status_since, node_instance_id,
      correlation_id, registered_at, deadline_at, budget_seconds, budget_source, labels,
      created_at, clock_from, reported_status)
    select 'node_' || $2 || '_' || i, $2, 1, $2 || '-' || i, $3, $4, $5::timestamptz, 'inst_' || $2 || '_' || i,
      'c',
      case when $4 <> 'provisioning' then $5::timestamptz end,
      $6::timestamptz,
      case when $6 is not null then 60 end,
      case when $6 is not null then 'pool' end,
      $7,
      $5::timestamptz, $5::timestamptz, case when $4 = 'ready' then 'ready' end
    from generate_series($1::int + 1, $1::int + $8::int) as i
    returning node_id, node_instance_id, name
  )
  insert into instances (
    node_instance_id, node_id, attempt, credential_hash,
    credential_used_at, created_at, registered_at)
  select node_instance_id, node_id, 1, sha256(convert_to('credential of ' || name, 'UTF8')),
    $5::timestamptz, $5::timestamptz, $5::timestamptz
  from placed
  returning node_id`;

/** Returns the credential of the node with this name. */
export const placedCredential = (name: string): string => `credential of ${name}`;

export async function placeNodes(db: Database, wanted: PlacedNodes): Promise<NodeId[]> {
  const { pool, zone = null, count, after = 0, status = 'ready', labels = {}, since, deadline_at = null } = wanted;
  const rows = await db.query<{ node_id: NodeId }>(insertNodes, [
    after,
    pool,
    zone,
    status,
    since,
    deadline_at,
    labels,
    count,
  ]);
  return rows.map((row) => row.node_id);
}

/** Stores a heartbeat of each node at the given time. */
export async function storeHeartbeats(
  db: Database,
  ids: readonly NodeId[],
  heartbeat: { interval_seconds: number; stale_after_seconds: number },
  at: Date,
): Promise<void> {
  await db.query(
    `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds)
     select node_instance_id, $2, $3, $4
     from nodes
     where node_id = any($1)
     on conflict (node_instance_id) do update
       set last_seen_at = excluded.last_seen_at`,
    [ids, at, heartbeat.interval_seconds, heartbeat.stale_after_seconds],
  );
}

/** Stores a live replica that has stored all heartbeats up to `through`. */
export async function storeReplica(db: Database, replica_id: string, through: Date): Promise<void> {
  await db.query(
    `insert into replicas (replica_id, host, pid, address, version, started_at, lease_until, flushed_through)
     values ($1, 'host', 1, '', 'test', $2, $3, $2)
     on conflict (replica_id) do update
       set flushed_through = excluded.flushed_through, lease_until = excluded.lease_until`,
    [replica_id, through, secondsLater(through, leaseSeconds)],
  );
}

export const readPlacedRows = (db: Database, ids?: readonly NodeId[]): Promise<NodeRow[]> =>
  db.query<NodeRow>('select * from nodes where $1::text[] is null or node_id = any($1) order by node_id', [
    ids ?? null,
  ]);
