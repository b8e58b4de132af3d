/**
 * Finds silent nodes. No index covers what every heartbeat changes, so the table is scanned, class
 * by class of stale time: long ones rarely. Only the suspects found are then checked precisely.
 */
import type { NodeId } from '../../base/ids.ts';
import { type HeartbeatSettings, heartbeatPolicy } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, readJudged } from '../rows/judged.ts';
import { isUncovered } from '../rows/maintenance.ts';
import { listOf } from '../transitions/transition-rules.ts';
import { isRecordedOnly } from '../transitions/would-have.ts';
import type { ScopeCount } from './due-rows.ts';
import { storedThrough } from './ingest-gaps.ts';

export type SilentNode = JudgedNode & {
  last_seen_at: Date;
  stale_seconds: number;
  probe_ok_at: Date | null;
  gap_end: Date | null;
  /** From the same snapshot as its last heartbeat. */
  stored_through: Date | null;
};

/** The shortest interval and stale time of any pool. */
export async function tightestHeartbeat(
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
  /** When it will be stale without another heartbeat. Any event only delays this moment. */
  due_ms: number;
}

/** A range of patience classes. Rows that have no class yet are in class 0. */
export interface Patience {
  min: number;
  max: number;
}
export const anyPatience: Patience = { min: 0, max: 31 };

/** The class of a stale time: its power of two. It rarely changes, so it can be indexed. */
export const patienceOf = (stale_seconds: number): number => Math.max(0, Math.floor(Math.log2(stale_seconds)));

/**
 * Serving nodes that will be stale by `until`, soonest first. Nodes heard after `earliest` are
 * skipped. Silence during our own gaps does not count: after an outage the whole fleet would be
 * suspected.
 */
export function scanSuspects(
  db: Queryable,
  earliest: Date,
  until: Date,
  { min, max }: Patience = anyPatience,
): Promise<Suspect[]> {
  return db.query<Suspect>(
    `select found.node_id, beat.due_ms
     from (
       select
         node_instance_id,
         extract(epoch from heard_until + make_interval(secs => stale_seconds))::double precision * 1000 as due_ms
       from (
         select *, greatest(last_seen_at, (select max(ended_at) from ingest_gaps)) as heard_until
         from heartbeats
         where not over
           and patience between $3 and $4
           and last_seen_at < $1) silent
       where heard_until + make_interval(secs => stale_seconds) < $2) beat
     cross join lateral (
       select node.node_id
       from instances instance
       join nodes node
         on node.node_id = instance.node_id
         and node.node_instance_id = instance.node_instance_id
       where instance.node_instance_id = beat.node_instance_id
         and node.status in ('ready', 'degraded')
       -- Forces one lookup per heartbeat found, which are few. A free join would scan the fleet.
       offset 0) found
     order by beat.due_ms`,
    [earliest, until, min, max],
  );
}

/** When the silence of a node becomes too long. */
const staleAt = `
  greatest(beat.last_seen_at, node.status_since, (select max(ended_at) from ingest_gaps))
  + make_interval(secs => beat.stale_seconds)`;

const isSilent = `
  node.node_id = any($1)
  and node.status in ('ready', 'degraded')
  and ${staleAt} < $2
  and (node.held is null or (node.held ->> 'held_until')::timestamptz <= $2)
  -- An observe-only verdict is recorded once per silence.
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

const joined = `
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
  return readJudged<SilentNode>(
    tx,
    {
      times: {
        last_seen_at: 'beat.last_seen_at',
        probe_ok_at: 'probe.ok_at',
      },
      shared: { stale_seconds: 'beat.stale_seconds' },
      once: { gap_end: '(select max(ended_at) from ingest_gaps)', stored_through: storedThrough('$2') },
      from: `
        from ${joined}
        where ${isSilent}
          and node.node_id <> all($4)
        order by ${staleAt}
        limit $3
        for no key update of node skip locked`,
    },
    [listOf(suspects), now, limit, except],
  );
}

/** Counts all silent nodes, locked ones included, but none under maintenance. */
export function countSilentNodes(db: Queryable, suspects: readonly string[], now: Date): Promise<ScopeCount[]> {
  return db.query<ScopeCount>(
    `select node.pool, node.zone, count(*)::int as count
     from ${joined}
     where ${isSilent}
       and ${isUncovered('$2')}
     group by 1, 2`,
    [suspects, now],
  );
}

/** When the next suspect becomes stale. */
export async function nextSilentAt(db: Queryable, suspects: readonly string[], now: Date): Promise<Date | null> {
  const [row] = await db.query<{ next: Date | null }>(
    `select min(${staleAt}) as next
     from ${joined}
     where node.node_id = any($1)
       and node.status in ('ready', 'degraded')
       and ${staleAt} >= $2`,
    [suspects, now],
  );
  return row?.next ?? null;
}
