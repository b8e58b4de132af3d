/** The ages of fenced nodes and failed releases, by pool: age shows that something is stuck. */
import type { Queryable } from '../pg/database.ts';

export interface FencedAge {
  of: 'node' | 'allocation';
  pool: string;
  status: string;
  count: number;
  /** The `status_since` of the oldest of them. */
  oldest_since: Date;
}

/**
 * Numbers come from the maintained counts; the oldest of each pool and status is first in a partial
 * index.
 */
export const fencedAges = (db: Queryable): Promise<FencedAge[]> =>
  db.query<FencedAge>(
    `with counted as (
       select of, pool, status, sum(change)::int as count
       from counts
       group by 1, 2, 3
       having sum(change) > 0
     )
     select 'node' as of, pool, status, count, oldest_since
     from counted
     cross join lateral (
       select status_since as oldest_since from nodes
       where nodes.pool = counted.pool
         and nodes.status = counted.status
         -- As in the index.
         and nodes.status in ('failed', 'draining', 'cleaning', 'quarantined')
       order by status_since
       limit 1
     ) oldest
     where of = 'nodes'
       and status in ('failed', 'draining', 'cleaning', 'quarantined')
     union all
     select 'allocation', pool, status, count, oldest_since
     from counted
     cross join lateral (
       select status_since as oldest_since from allocations
       where allocations.pool = counted.pool
         and allocations.status = 'release_failed'
       order by status_since
       limit 1
     ) oldest
     where of = 'allocations'
       and status = 'release_failed'`,
  );
