/** The type of an invariant's query, and the SQL that several of them share. */
import type { Round } from './sequences.ts';

export const sqlList = (words: readonly string[]) => `(${words.map((word) => `'${word}'`).join(', ')})`;
/** Selects changes of status in this round. */
export const isStatusChangeOfRound = `changes.round = $2 and changes."to" is not null and changes.sets ? 'status'`;
export const nodeColumns = `node.node_id as id, node.pool, node.name`;
export const allocationColumns = `allocation.allocation_id as id, allocation.pool, null as name`;
export const changeColumns = `changes.id, changes.pool, changes.name`;

/** Joins the current document of a node's pool. */
export const joinPoolDocument = `
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation`;
export const isHeld = `coalesce((node.held ->> 'held_until')::timestamptz > $1, false)`;
export const isObserveOnly = `coalesce(generation.document ->> 'mode', '') = 'observe'`;

/** Joins the deadline that was in force before a change, as `previous`. */
export const joinPreviousDeadline = `
      left join lateral (
        select earlier.sets ->> 'deadline_at' as deadline_at
        from changes earlier
        where earlier.id = changes.id
          and earlier.sets ? 'deadline_at'
          and (earlier.xid, earlier.seq) < (changes.xid, changes.seq)
        order by earlier.xid desc, earlier.seq desc
        limit 1
      ) previous on true`;

export interface InvariantQuery {
  invariant: string;
  /**
   * Selects the violations with id, pool, name and a `detail` in words. $1 is the current time, $2
   * the number of the round.
   */
  sql: string;
  /** Skips the query in rounds for which the function returns true. */
  unless?: (round: Round) => boolean;
}
