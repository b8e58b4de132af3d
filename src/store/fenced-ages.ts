/** How long things have been fenced or parked, by pool: what is stuck is seen by its age, not by its number. Reads only. */
import type { Queryable } from './database.ts';

export interface FencedAge {
  of: 'node' | 'allocation';
  pool: string;
  status: string;
  count: number;
  /** Since when the oldest of them stands there. */
  oldest_since: Date;
}

/** Read from two small indexes that hold nothing else. */
export const fencedAges = (db: Queryable): Promise<FencedAge[]> =>
  db.query<FencedAge>(
    `select 'node' as of, pool, status, count(*)::int as count, min(status_since) as oldest_since from nodes
     where status in ('failed', 'draining', 'cleaning', 'quarantined') group by pool, status
     union all
     select 'allocation', pool, 'release_failed', count(*)::int, min(status_since) from allocations
     where status = 'release_failed' group by pool`,
  );
