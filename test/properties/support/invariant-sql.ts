/** The type of an invariant's query, and the SQL that several of them share. */
import type { Round } from './sequences.ts';

export const list = (words: readonly string[]) => `(${words.map((word) => `'${word}'`).join(', ')})`;
/** A change of status in this round. */
export const ofRound = `changes.round = $2 and changes."to" is not null and changes.sets ? 'status'`;
export const node = `node.node_id as id, node.pool, node.name`;
export const allocation = `allocation.allocation_id as id, allocation.pool, null as name`;
export const change = `changes.id, changes.pool, changes.name`;

/** Joins the pool's present document. */
export const withDocument = `
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation`;
export const isHeld = `coalesce((node.held ->> 'held_until')::timestamptz > $1, false)`;
export const isObserveOnly = `coalesce(generation.document ->> 'mode', '') = 'observe'`;

/** The deadline that was in force before a change. */
export const deadlineBefore = `
      left join lateral (
        select before.sets ->> 'deadline_at' as deadline_at
        from changes before
        where before.id = changes.id
          and before.sets ? 'deadline_at'
          and (before.xid, before.seq) < (changes.xid, changes.seq)
        order by before.xid desc, before.seq desc
        limit 1
      ) force on true`;

export interface InvariantQuery {
  invariant: string;
  /** $1: now; $2: the round. Selects id, pool, name and `what` is wrong. */
  sql: string;
  /** Skips the query in such rounds. */
  unless?: (round: Round) => boolean;
}
