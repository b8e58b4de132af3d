/**
 * Estimates the heartbeat load from the number of nodes that send heartbeats and of live replicas.
 * The estimate runs often, so it samples a bounded number of pages. It is exact for a small fleet,
 * and within about one percent for a million nodes, which is less than the jitter of the intervals
 * derived from it.
 *
 * Silent nodes count too, because after an outage of the server all nodes are silent and come back.
 */
import { type Queryable, single } from '../../pg/database.ts';

const maxPages = 2_000;

export interface HeartbeatLoad {
  nodes: number;
  replicas: number;
}

export async function countHeartbeatSources(db: Queryable, pages = maxPages): Promise<number> {
  const { total } = single(
    await db.query<{ total: number }>(
      `select (pg_relation_size('heartbeats') / current_setting('block_size')::int)::int as total`,
    ),
  );
  const share = Math.min(1, pages / Math.max(1, total));
  const { sampled } = single(
    await db.query<{ sampled: number }>(
      `select count(*)::int as sampled
       from heartbeats tablesample system ($1::real)
       where not over`,
      [share * 100],
    ),
  );
  return Math.round(sampled / share);
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
