/**
 * Finds silent nodes. Heartbeats change `last_seen_at` too often to index it, so a scan of the
 * table finds suspects. Nodes with a long stale time are scanned less often. Only suspects are then
 * checked precisely.
 */
import type { NodeId } from '../../base/ids.ts';
import { type HeartbeatSettings, heartbeatPolicy } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import { isUncovered } from '../rows/maintenance.ts';
import { toArrayLiteral } from '../transitions/transition-rules.ts';
import { isRecordedOnly } from '../transitions/would-have.ts';
import { storedThrough } from './ingest-gaps.ts';
import type { ScopeCount } from './past-deadline.ts';

export type SilentNode = JudgedNode & {
  last_seen_at: Date;
  stale_seconds: number;
  probe_ok_at: Date | null;
  gap_end: Date | null;
  /** Read in the same snapshot as `last_seen_at`. */
  stored_through: Date | null;
};

/** Returns the shortest interval and stale time in any generation of a pool that is not deleted. */
export async function readTightestHeartbeat(
  db: Queryable,
): Promise<{ interval_seconds: number; stale_after_seconds: number }> {
  const rows = await db.query<{ heartbeat: HeartbeatSettings | null }>(
    `select distinct generation.document -> 'heartbeat' as heartbeat
     from pool_generations generation
     join pools pool on pool.name = generation.pool and pool.deleted_at is null`,
  );
  const policies = rows.map((row) => heartbeatPolicy(row.heartbeat ?? {}));
  const all = policies.length > 0 ? policies : [heartbeatPolicy()];
  return {
    interval_seconds: Math.min(...all.map((policy) => policy.interval_seconds)),
    stale_after_seconds: Math.min(...all.map((policy) => policy.stale_after_seconds)),
  };
}

export interface Suspect {
  node_id: NodeId;
  /** When the node becomes stale without another heartbeat. Events can only delay this time. */
  due_ms: number;
}

/** A range of patience classes, which group nodes by stale time. The column's default is 0. */
export interface Patience {
  min: number;
  max: number;
}
export const anyPatience: Patience = { min: 0, max: 31 };

/** The binary logarithm of the stale time. It rarely changes, so it can be indexed. */
export const patienceOf = (stale_seconds: number): number => Math.max(0, Math.floor(Math.log2(stale_seconds)));

/**
 * Returns serving nodes that were last seen before `seen_before` and will be stale by `until`,
 * soonest first. Silence during an ingest gap does not count; otherwise the whole fleet would be
 * suspected after an outage.
 */
export function scanSuspects(
  db: Queryable,
  seen_before: Date,
  until: Date,
  { min, max }: Patience = anyPatience,
): Promise<Suspect[]> {
  return db.query<Suspect>(
    `select serving.node_id, beat.due_ms
     from (
       select
         node_instance_id,
         extract(epoch from silent_since + make_interval(secs => stale_seconds))::double precision * 1000 as due_ms
       from (
         select *, greatest(last_seen_at, (select max(ended_at) from ingest_gaps)) as silent_since
         from heartbeats
         where not over
           and patience between $3 and $4
           and last_seen_at < $1) silent
       where silent_since + make_interval(secs => stale_seconds) < $2) beat
     cross join lateral (
       select node.node_id
       from instances instance
       join nodes node
         on node.node_id = instance.node_id
         and node.node_instance_id = instance.node_instance_id
       where instance.node_instance_id = beat.node_instance_id
         and node.status in ('ready', 'degraded')
       -- The offset forces one lookup for each of the few silent heartbeats. Otherwise the planner
       -- may join the whole fleet.
       offset 0) serving
     order by beat.due_ms`,
    [seen_before, until, min, max],
  );
}

/** SQL: when the node becomes stale. */
const staleAt = `
  greatest(beat.last_seen_at, node.status_since, (select max(ended_at) from ingest_gaps))
  + make_interval(secs => beat.stale_seconds)`;

const isSilent = `
  node.node_id = any($1)
  and node.status in ('ready', 'degraded')
  and ${staleAt} < $2
  and (node.held is null or (node.held ->> 'held_until')::timestamptz <= $2)
  -- An observe-only verdict is recorded only once until the next heartbeat.
  and not (
    ${isRecordedOnly}
    and node.would_have ->> 'rule' = 'liveness'
    and (node.would_have ->> 'at')::timestamptz > beat.last_seen_at)
  -- A degraded node that answers its probe stays degraded.
  and not (
    node.status = 'degraded'
    and probe.ok_at is not null
    and probe.ok_at > beat.last_seen_at
    and probe.ok_at + make_interval(secs => beat.stale_seconds) >= $2)`;

const joinedTables = `
  nodes node
  join heartbeats beat on beat.node_instance_id = node.node_instance_id
  left join probes probe on probe.node_instance_id = node.node_instance_id`;

export function lockSilentNodes(
  tx: Transaction,
  suspects: readonly string[],
  now: Date,
  limit: number,
  except: readonly string[],
): Promise<SilentNode[]> {
  return tx.query<SilentNode>(
    `select
       ${judgedColumns},
       beat.last_seen_at,
       beat.stale_seconds,
       probe.ok_at as probe_ok_at,
       (select max(ended_at) from ingest_gaps) as gap_end,
       ${storedThrough('$2')} as stored_through
     from ${joinedTables}
     where ${isSilent}
       and node.node_id <> all($4)
     order by ${staleAt}
     limit $3
     for no key update of node skip locked`,
    [toArrayLiteral(suspects), now, limit, except],
    { prepared: true },
  );
}

/** Counts all silent nodes except those under maintenance. The count includes locked nodes. */
export function countSilentNodes(db: Queryable, suspects: readonly string[], now: Date): Promise<ScopeCount[]> {
  return db.query<ScopeCount>(
    `select node.pool, node.zone, count(*)::int as count
     from ${joinedTables}
     where ${isSilent}
       and ${isUncovered('$2')}
     group by 1, 2`,
    [suspects, now],
  );
}

/** Returns when the next suspect becomes stale. */
export async function readNextSilentAt(db: Queryable, suspects: readonly string[], now: Date): Promise<Date | null> {
  const [row] = await db.query<{ next: Date | null }>(
    `select min(${staleAt}) as next
     from ${joinedTables}
     where node.node_id = any($1)
       and node.status in ('ready', 'degraded')
       and ${staleAt} >= $2`,
    [suspects, now],
  );
  return row?.next ?? null;
}
