/**
 * Reads how many nodes are failed, draining, cleaning or quarantined, how many releases failed, and
 * since when, so that metrics show stuck ones.
 */
import type { Queryable } from '../pg/database.ts';

export interface FencedAge {
  of: 'node' | 'allocation';
  pool: string;
  status: string;
  count: number;
  /** The earliest `status_since` of these rows. */
  oldest_since: Date;
}

/**
 * Cheap in a fleet of any size: the numbers come from `counts`, and the oldest row of each pool and
 * status is the first of a partial index.
 */
export const readFencedAges = (db: Queryable): Promise<FencedAge[]> =>
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
         -- Repeats the condition of the partial index, so that the planner uses it.
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
