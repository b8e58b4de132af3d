/**
 * Records gaps in which the control plane stored no heartbeats. Each replica publishes the time up
 * to which it has stored every heartbeat. A period in which no replica published is a gap. It is
 * recorded once, and deadlines move by its length so that no machine is blamed for it.
 */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { ReplicaId } from '../../base/ids.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { moveDeadlines } from '../transitions/deadlines.ts';

export interface Gap {
  started_at: Date;
  ended_at: Date;
  cause: string;
  nodes_moved: number;
  allocations_moved: number;
}

const lastPublished = '(select max(flushed_through) from replicas)';

/**
 * Publishes that this replica has stored all heartbeats before `flushed_through`, and returns the
 * database's clock. Returns undefined if no replica has published after `since`, because the gap
 * must be recorded first.
 */
async function publish(db: Queryable, id: ReplicaId, flushed_through: Date, since: Date): Promise<number | undefined> {
  const [row] = await db.query<{ database_ms: number }>(
    `update replicas set flushed_through = $2
     where replica_id = $1
       and coalesce(${lastPublished}, $2) >= $3
     returning (extract(epoch from clock_timestamp()) * 1000)::double precision as database_ms`,
    [id, flushed_through, since],
  );
  return row?.database_ms;
}

export interface PublishResult {
  /** The clock of the database, to detect that a clock was set. */
  database_ms: number;
  gap: Gap | undefined;
  /** No replica stores heartbeats. The gap continues, and is recorded when it has ended. */
  isIngestStopped: boolean;
}

export async function publishStoredThrough(
  db: Database,
  replica: { replica_id: ReplicaId; flushed_through: Date },
  min_gap_seconds: number,
  now: Date,
): Promise<PublishResult> {
  const { replica_id, flushed_through } = replica;
  const since = secondsLater(now, -min_gap_seconds);
  const published_ms = await publish(db, replica_id, flushed_through, since);
  if (published_ms !== undefined) return { database_ms: published_ms, gap: undefined, isIngestStopped: false };
  return db.transaction(async (tx) => {
    // Only one replica at a time, so that two never record the same period with different starts.
    await tx.query('lock table ingest_gaps in share row exclusive mode');
    // A gap starts no earlier than the last one ended, so that no period moves a deadline twice.
    const [last] = await tx.query<{ at: Date | null; is_restored: boolean }>(
      `select
         greatest(${lastPublished}, (select max(ended_at) from ingest_gaps)) as at,
         exists (select 1 from restorations where ended_at is null) as is_restored`,
    );
    // After a restore, the end of the restoration records one gap.
    const gapStart = last?.at && last.at < since && !last.is_restored ? last.at : undefined;
    const isIngestStopped = gapStart !== undefined && flushed_through < since;
    const gap = gapStart && !isIngestStopped ? await recordGap(tx, gapStart, now, unreachable) : undefined;
    const database_ms = await publish(tx, replica_id, flushed_through, moment(0));
    return { database_ms: database_ms ?? now.getTime(), gap, isIngestStopped };
  });
}

const unreachable = 'no replica could receive or store heartbeats';

/** Moves deadlines by the time since the restored rows were last kept up to date, as one gap. */
export async function moveDeadlinesAfterRestore(tx: Transaction, remembers_until: Date, now: Date): Promise<void> {
  const [last] = await tx.query<{ at: Date }>(
    'select greatest($1::timestamptz, (select max(ended_at) from ingest_gaps)) as at',
    [remembers_until],
  );
  if (last && last.at < now) await recordGap(tx, last.at, now, 'no server acted, because the database was restored');
}

/** Only one replica can insert the gap. For the others this returns undefined and moves nothing. */
async function recordGap(tx: Transaction, started_at: Date, ended_at: Date, cause: string): Promise<Gap | undefined> {
  const rows = await tx.query(
    `insert into ingest_gaps (started_at, ended_at, cause)
     values ($1, $2, $3)
     on conflict do nothing
     returning started_at`,
    [started_at, ended_at, cause],
  );
  if (rows.length === 0) return undefined;
  const seconds = secondsBetween(started_at, ended_at);
  const nodes_moved = await moveNodes(tx, started_at, ended_at);
  const allocations_moved = await moveOwnDeadlines(tx, started_at, ended_at);
  await tx.query(
    `update ingest_gaps set nodes_moved = $2, allocations_moved = $3
     where started_at = $1`,
    [started_at, nodes_moved, allocations_moved],
  );
  await recordEvidence(tx, [
    {
      at: ended_at,
      layer: 'store',
      kind: 'ingest.gap',
      summary: `for ${seconds.toFixed(1)} s ${cause}; ${nodes_moved + allocations_moved} deadlines were moved`,
      data: { started_at, ended_at, seconds, nodes_moved, allocations_moved },
    },
  ]);
  return { started_at, ended_at, cause, nodes_moved, allocations_moved };
}

/** The seconds of the gap that the row spent in its present status. */
const overlap = (status_since: Date, started_at: Date, ended_at: Date) =>
  Math.max(0, secondsBetween(status_since > started_at ? status_since : started_at, ended_at));

async function moveNodes(tx: Transaction, started_at: Date, ended_at: Date): Promise<number> {
  const waiting = await tx.query<NodeRow>(
    `select *
     from nodes
     where deadline_at > $1
       and status_since < $2
     order by node_id
     for no key update`,
    [started_at, ended_at],
  );
  const moves = waiting.flatMap((node) => {
    const seconds = overlap(node.status_since, started_at, ended_at);
    if (!node.deadline_at || seconds === 0) return [];
    const reason = `the control plane did not act for ${seconds.toFixed(1)} s`;
    // The boot clock moves too, so that the gap counts for neither the budget ceiling nor the
    // sample.
    const clock_from =
      node.status === 'provisioning' && node.clock_from ? secondsLater(node.clock_from, seconds) : node.clock_from;
    const deadline_at = secondsLater(node.deadline_at, seconds);
    return [{ node, deadline_at, set: { clock_from }, reason, data: { gap: started_at } }];
  });
  await moveDeadlines(tx, moves, { layer: 'store' }, ended_at);
  return moves.length;
}

/** Moves deadlines of allocations that wait for a machine or a release. No node shares them. */
async function moveOwnDeadlines(tx: Transaction, started_at: Date, ended_at: Date): Promise<number> {
  const moved = await tx.query<{ allocation_id: string; deadline_at: Date }>(
    `update allocations set
       deadline_at = deadline_at + ($2::timestamptz - greatest(status_since, $1::timestamptz))
     where status in ('requested', 'releasing')
       and deadline_at > $1
       and status_since < $2
     returning allocation_id, deadline_at`,
    [started_at, ended_at],
  );
  await recordEvidence(
    tx,
    moved.map(({ allocation_id, deadline_at }) => ({
      at: ended_at,
      layer: 'store',
      kind: 'allocation.deadline_moved',
      summary: `the deadline is now ${deadline_at.toISOString()}: the control plane did not act`,
      data: { set: { allocation_id, deadline_at } },
      allocation_id: allocation_id as never,
    })),
  );
  return moved.length;
}

/** SQL: the time up to which every live replica has stored all heartbeats; null without one. */
export const storedThrough = (now: string): string =>
  `(select min(coalesce(flushed_through, started_at))
    from replicas
    where ended_at is null
      and lease_until > ${now})`;

export async function readStoredThrough(db: Queryable, now: Date): Promise<Date | null> {
  const [row] = await db.query<{ at: Date | null }>(`select ${storedThrough('$1')} as at`, [now]);
  return row?.at ?? null;
}

export const readNewestGaps = (db: Queryable, limit: number): Promise<Gap[]> =>
  db.query<Gap>(
    `select *
     from ingest_gaps
     order by ended_at desc
     limit $1`,
    [limit],
  );
