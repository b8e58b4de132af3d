/**
 * Gaps in which the control plane stored no heartbeats. Each replica publishes up to when it has
 * stored every heartbeat. A time without such a publication is a gap of our own: it is recorded
 * once, deadlines move by it, and no machine is judged by it.
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

const latest = '(select max(flushed_through) from replicas)';

/**
 * Publishes that this replica has stored everything before `flushed_through`. Returns undefined if
 * no replica has published after `since`: the gap must be recorded first.
 */
async function publish(db: Queryable, id: ReplicaId, flushed_through: Date, since: Date): Promise<number | undefined> {
  const [row] = await db.query<{ database_ms: number }>(
    `update replicas set flushed_through = $2
     where replica_id = $1
       and coalesce(${latest}, $2) >= $3
     returning (extract(epoch from clock_timestamp()) * 1000)::double precision as database_ms`,
    [id, flushed_through, since],
  );
  return row?.database_ms;
}

export interface Heard {
  /** The clock of the database, to notice when it is set. */
  database_ms: number;
  gap: Gap | undefined;
  /** No replica stores heartbeats: the gap continues, and is recorded once it is over. */
  deaf: boolean;
}

export async function publishHeard(
  db: Database,
  replica: { replica_id: ReplicaId; flushed_through: Date },
  patience_seconds: number,
  now: Date,
): Promise<Heard> {
  const { replica_id, flushed_through } = replica;
  const since = secondsLater(now, -patience_seconds);
  const steady = await publish(db, replica_id, flushed_through, since);
  if (steady !== undefined) return { database_ms: steady, gap: undefined, deaf: false };
  return db.transaction(async (tx) => {
    // Gaps do not overlap, so that no moment moves a deadline twice.
    const [last] = await tx.query<{ at: Date | null }>(
      `select greatest(${latest}, (select max(ended_at) from ingest_gaps)) as at`,
    );
    const silent = last?.at && last.at < since ? last.at : undefined;
    const deaf = silent !== undefined && flushed_through < since;
    const gap = silent && !deaf ? await recordGap(tx, silent, now) : undefined;
    const database_ms = await publish(tx, replica_id, flushed_through, moment(0));
    return { database_ms: database_ms ?? now.getTime(), gap, deaf };
  });
}

/** Only one replica records a gap; the others move nothing. */
async function recordGap(tx: Transaction, started_at: Date, ended_at: Date): Promise<Gap | undefined> {
  const cause = 'no replica could hear or store what machines said';
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
      summary: `for ${seconds.toFixed(1)} s ${cause}; ${nodes_moved + allocations_moved} deadlines were moved by it`,
      data: { started_at, ended_at, seconds, nodes_moved, allocations_moved },
    },
  ]);
  return { started_at, ended_at, cause, nodes_moved, allocations_moved };
}

/** The part of the gap since the row entered its present status. */
const overlap = (status_since: Date, started_at: Date, ended_at: Date) =>
  Math.max(0, secondsBetween(status_since > started_at ? status_since : started_at, ended_at));

async function moveNodes(tx: Transaction, started_at: Date, ended_at: Date): Promise<number> {
  const open = await tx.query<NodeRow>(
    `select *
     from nodes
     where deadline_at > $1
       and status_since < $2
     order by node_id
     for no key update`,
    [started_at, ended_at],
  );
  const moves = open.flatMap((node) => {
    const seconds = overlap(node.status_since, started_at, ended_at);
    if (!node.deadline_at || seconds === 0) return [];
    const reason = `the control plane itself was away for ${seconds.toFixed(1)} s`;
    // The boot clock moves too, so that neither the budget ceiling nor the sample includes the gap.
    const clock_from =
      node.status === 'provisioning' && node.clock_from ? secondsLater(node.clock_from, seconds) : node.clock_from;
    const deadline_at = secondsLater(node.deadline_at, seconds);
    return [{ node, deadline_at, set: { clock_from }, reason, data: { gap: started_at } }];
  });
  await moveDeadlines(tx, moves, { layer: 'store' }, ended_at);
  return moves.length;
}

/** Allocations with a deadline of their own: they wait for a machine or for their release. */
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
      summary: `it has until ${deadline_at.toISOString()}: the control plane itself was away`,
      data: { set: { allocation_id, deadline_at } },
      allocation_id: allocation_id as never,
    })),
  );
  return moved.length;
}

/** Up to when every live replica has stored all heartbeats; null without a live replica. */
export const storedThrough = (now: string): string =>
  `(select min(coalesce(flushed_through, started_at))
    from replicas
    where ended_at is null
      and lease_until > ${now})`;

export async function slowestReplica(db: Queryable, now: Date): Promise<Date | null> {
  const [row] = await db.query<{ at: Date | null }>(`select ${storedThrough('$1')} as at`, [now]);
  return row?.at ?? null;
}

export const newestGaps = (db: Queryable, limit: number): Promise<Gap[]> =>
  db.query<Gap>(
    `select *
     from ingest_gaps
     order by ended_at desc
     limit $1`,
    [limit],
  );
