/**
 * Estimates the heartbeat load: nodes that send heartbeats, and live replicas. It runs often, so it
 * samples a bounded number of pages: exact for a small fleet, within about one percent for a
 * million nodes, which is less than the jitter of the intervals derived from it.
 *
 * Silent nodes count too: they come back, and after an outage of the server all nodes are silent.
 */
import { type Queryable, single } from '../../pg/database.ts';

const maxPages = 2_000;

export interface HeartbeatLoad {
  nodes: number;
  replicas: number;
}

export async function countHeartbeatSources(db: Queryable, pages = maxPages): Promise<number> {
  const { size } = single(
    await db.query<{ size: number }>(
      `select (pg_relation_size('heartbeats') / current_setting('block_size')::int)::int as size`,
    ),
  );
  const share = Math.min(1, pages / Math.max(1, size));
  const { found } = single(
    await db.query<{ found: number }>(
      `select count(*)::int as found
       from heartbeats tablesample system ($1::real)
       where not over`,
      [share * 100],
    ),
  );
  return Math.round(found / share);
}

export async function countReplicas(db: Queryable, now: Date): Promise<number> {
  const { replicas } = single(
    await db.query<{ replicas: number }>(
      `select count(*)::int as replicas
       from replicas
       where ended_at is null
         and lease_until > $1`,
      [now],
    ),
  );
  return Math.max(1, replicas);
}
