/** How long things have been fenced or parked, by pool: what is stuck is seen by its age, not by its number. Reads only. */
import type { Queryable } from '../pg/database.ts';

export interface FencedAge {
  of: 'node' | 'allocation';
  pool: string;
  status: string;
  count: number;
  /** Since when the oldest of them stands there. */
  oldest_since: Date;
}

/** As many as were counted; and the oldest of each pool and status is the first in an index that holds nothing else. */
export const fencedAges = (db: Queryable): Promise<FencedAge[]> =>
  db.query<FencedAge>(
    `with counted as (select of, pool, status, sum(change)::int as count from counts group by 1, 2, 3 having sum(change) > 0)
     select 'node' as of, pool, status, count, oldest_since from counted
     cross join lateral (select status_since as oldest_since from nodes where nodes.pool = counted.pool and nodes.status = counted.status
       and nodes.status in ('failed', 'draining', 'cleaning', 'quarantined') order by status_since limit 1) oldest
     where of = 'nodes' and status in ('failed', 'draining', 'cleaning', 'quarantined')
     union all
     select 'allocation', pool, status, count, oldest_since from counted
     cross join lateral (select status_since as oldest_since from allocations where allocations.pool = counted.pool
       and allocations.status = 'release_failed' order by status_since limit 1) oldest
     where of = 'allocations' and status = 'release_failed'`,
  );
