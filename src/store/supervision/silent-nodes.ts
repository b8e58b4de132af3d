/**
 * Machines that have fallen silent. The table of beats has no index on what every beat changes, so it is read whole, but
 * seldom: those that may be silent for longer are read seldomer, and only those whose time is up soon are then looked at precisely, as often
 * as it takes.
 */
import type { NodeId } from '../../base/ids.ts';
import { type HeartbeatSettings, heartbeatPolicy } from '../../lifecycle/deadlines/budgets.ts';
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
  /** Read at the same moment as its last beat: what is stored after that is in neither. */
  stored_through: Date | null;
};

/** The shortest interval and stale time that any pool asks for. */
export async function tightestHeartbeat(
  db: Queryable,
): Promise<{ interval_seconds: number; stale_after_seconds: number }> {
  const rows = await db.query<{ heartbeat: HeartbeatSettings | null }>(
    `select distinct generation.document -> 'heartbeat' as heartbeat from pool_generations generation
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
  /** When it will have been silent for too long, if nothing is heard of it until then. Never too late: whatever happens meanwhile only puts it off. */
  due_ms: number;
}

/** Which beats are read: those whose stale time reaches this power of two, and none beyond. What has not been counted yet says 0. */
export interface Patience {
  min: number;
  max: number;
}
export const anyPatience: Patience = { min: 0, max: 31 };

/** The power of two that a stale time reaches: it seldom changes where the time itself changes with each beat, so an index can have it. */
export const patienceOf = (stale_seconds: number): number => Math.max(0, Math.floor(Math.log2(stale_seconds)));

/**
 * Soonest first, those that serve and will have been silent for too long by `until`; whoever was heard after `earliest` is not. The machine is
 * looked up for each beat found, which are few: joined freely, the whole fleet would be read for them. While we could not hear,
 * nobody was silent: otherwise after our own absence the whole fleet would be suspected, and each of a million machines probed.
 */
export function scanSuspects(
  db: Queryable,
  earliest: Date,
  until: Date,
  { min, max }: Patience = anyPatience,
): Promise<Suspect[]> {
  return db.query<Suspect>(
    `select found.node_id, beat.due_ms from (
       select node_instance_id, extract(epoch from heard_until + make_interval(secs => stale_seconds))::double precision * 1000 as due_ms
       from (select *, greatest(last_seen_at, (select max(ended_at) from ingest_gaps)) as heard_until from heartbeats
         where not over and patience between $3 and $4 and last_seen_at < $1) silent
       where heard_until + make_interval(secs => stale_seconds) < $2) beat cross join lateral (
       select node.node_id from instances instance join nodes node on node.node_id = instance.node_id
         and node.node_instance_id = instance.node_instance_id
       where instance.node_instance_id = beat.node_instance_id and node.status in ('ready', 'degraded') offset 0) found
     order by beat.due_ms`,
    [earliest, until, min, max],
  );
}

const silence = `greatest(beat.last_seen_at, node.status_since, (select max(ended_at) from ingest_gaps)) + make_interval(secs => beat.stale_seconds)`;

const isSilent = `node.node_id = any($1) and node.status in ('ready', 'degraded') and ${silence} < $2
  and (node.held is null or (node.held ->> 'held_until')::timestamptz <= $2)
  and not (${isRecordedOnly} and node.would_have ->> 'rule' = 'liveness' and (node.would_have ->> 'at')::timestamptz > beat.last_seen_at)
  and not (node.status = 'degraded' and probe.ok_at is not null and probe.ok_at > beat.last_seen_at
    and probe.ok_at + make_interval(secs => beat.stale_seconds) >= $2)`;

const joined = `nodes node join heartbeats beat on beat.node_instance_id = node.node_instance_id
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
      moments: {
        last_seen_at: 'beat.last_seen_at',
        probe_ok_at: 'probe.ok_at',
      },
      alike: { stale_seconds: 'beat.stale_seconds' },
      once: { gap_end: '(select max(ended_at) from ingest_gaps)', stored_through: storedThrough('$2') },
      rest: `from ${joined} where ${isSilent} and node.node_id <> all($4)
        order by ${silence} limit $3 for no key update of node skip locked`,
    },
    [listOf(suspects), now, limit, except],
  );
}

/** All that are silent, also those another replica has locked or no batch holds; those somebody works on do not count. */
export function countSilentNodes(db: Queryable, suspects: readonly string[], now: Date): Promise<ScopeCount[]> {
  return db.query<ScopeCount>(
    `select node.pool, node.zone, count(*)::int as count from ${joined} where ${isSilent} and ${isUncovered('$2')} group by 1, 2`,
    [suspects, now],
  );
}

/** When the next one's silence has lasted too long. */
export async function nextSilentAt(db: Queryable, suspects: readonly string[], now: Date): Promise<Date | null> {
  const [row] = await db.query<{ next: Date | null }>(
    `select min(${silence}) as next from ${joined} where node.node_id = any($1) and node.status in ('ready', 'degraded') and ${silence} >= $2`,
    [suspects, now],
  );
  return row?.next ?? null;
}
