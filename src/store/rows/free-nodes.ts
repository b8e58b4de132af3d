/** Finds free nodes without checking all held ones each time. */
import { secondsLater } from '../../base/clock.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { hasResidue } from './node-residue.ts';
import type { NodeRow } from './nodes.ts';

const isFree = `
  node.pool = $1
  and node.status = 'ready'
  and not exists (
    select 1 from allocations holder
    where holder.node_id = node.node_id
      and holder.status in ('provisioning', 'active', 'releasing', 'release_failed')
  )
  and not ${hasResidue}`;

/**
 * By pool: the `status_since` of the free node that the last search found, and until when the hint
 * is used. Nodes that have been ready for longer are held. In a busy pool that is nearly all of
 * them, and checking each again takes seconds in a large pool.
 */
export type FreeNodeHints = Map<string, { since: Date; until: Date }>;

/** More than the clocks of replicas differ. */
const clocksApartSeconds = 60;
/** Then all nodes are searched again: one that was locked, or had residue, may have become free. */
const trustedSeconds = 600;

/**
 * Locks the free nodes that have been ready the longest; concurrent callers get the next ones.
 * Searches all nodes if the hint leaves too few.
 */
export async function lockFreeNodes(
  tx: Transaction,
  pool: string,
  limit: number,
  now: Date,
  hints: FreeNodeHints,
): Promise<NodeRow[]> {
  const search = (since: string) =>
    tx.query<NodeRow>(
      `select node.*
       from nodes node
       where ${isFree}
         and node.status_since >= $2
       order by node.status_since
       limit ${limit}
       for no key update of node skip locked`,
      [pool, since],
      // Planning takes longer than finding one node.
      { often: limit === 1 },
    );
  const before = hints.get(pool);
  if (before && now < before.until) {
    const found = await search(secondsLater(before.since, -clocksApartSeconds).toISOString());
    if (found.length === limit) {
      hints.set(pool, { ...before, since: found[0]?.status_since ?? before.since });
      return found;
    }
  }
  const found = await search('-infinity');
  const [first] = found;
  if (first) hints.set(pool, { since: first.status_since, until: secondsLater(now, trustedSeconds) });
  return found;
}

/** Counts the free nodes of a pool, up to `limit`. */
export async function countFree(db: Queryable, pool: string, limit: number): Promise<number> {
  const rows = await db.query(
    `select 1 from nodes node
     where ${isFree}
     limit $2`,
    [pool, limit],
    { often: true },
  );
  return rows.length;
}
