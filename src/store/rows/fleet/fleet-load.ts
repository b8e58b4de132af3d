/**
 * How much there is to hear: machines that somebody listens for, and replicas that do. Asked again and again, so it costs the
 * same for any fleet: of the table of beats only so many pages are read, by chance. A small fleet is counted whole; of a
 * million machines the figure is right within about a percent, which is less than the jitter of the intervals made from it.
 *
 * Machines that are silent for now count as well. They come back, and after our own absence all of them are silent.
 */
import { type Queryable, single } from '../../pg/database.ts';

const mostPages = 2_000;

export interface HeartbeatLoad {
  nodes: number;
  replicas: number;
}

export async function countHeartbeatSources(db: Queryable, pages = mostPages): Promise<number> {
  const { size } = single(
    await db.query<{ size: number }>(
      `select (pg_relation_size('heartbeats') / current_setting('block_size')::int)::int as size`,
    ),
  );
  const share = Math.min(1, pages / Math.max(1, size));
  const { found } = single(
    await db.query<{ found: number }>(
      `select count(*)::int as found from heartbeats tablesample system ($1::real) where not over`,
      [share * 100],
    ),
  );
  return Math.round(found / share);
}

export async function countReplicas(db: Queryable, now: Date): Promise<number> {
  const { replicas } = single(
    await db.query<{ replicas: number }>(
      'select count(*)::int as replicas from replicas where ended_at is null and lease_until > $1',
      [now],
    ),
  );
  return Math.max(1, replicas);
}
