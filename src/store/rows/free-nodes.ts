/** Finds free nodes without checking every held node on each search. */
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
 * The place where the next search of each pool starts: `since` is the `status_since` of the free
 * node that the last search found, and `until` is when the hint expires. Nodes that have been ready
 * for longer were held. In a busy pool these are nearly all nodes, and checking each of them again
 * takes seconds.
 */
export type FreeNodeHints = Map<string, { since: Date; until: Date }>;

/** More than the clocks of replicas can differ. */
const maxClockSkewSeconds = 60;
/** After this time all nodes are searched again, because skipped nodes may have become free. */
const hintSeconds = 600;

/**
 * Locks the free nodes that have been ready the longest, apart from nodes before the hint;
 * concurrent callers get the next ones. Searches all nodes if the search from the hint finds too
 * few.
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
      // Prepared for a single node, because planning takes longer than finding it.
      { prepared: limit === 1 },
    );
  const hint = hints.get(pool);
  if (hint && now < hint.until) {
    const nodes = await search(secondsLater(hint.since, -maxClockSkewSeconds).toISOString());
    if (nodes.length === limit) {
      hints.set(pool, { ...hint, since: nodes[0]?.status_since ?? hint.since });
      return nodes;
    }
  }
  const nodes = await search('-infinity');
  const [first] = nodes;
  if (first) hints.set(pool, { since: first.status_since, until: secondsLater(now, hintSeconds) });
  return nodes;
}

/** Counts the free nodes of a pool, up to `limit`. */
export async function countFree(db: Queryable, pool: string, limit: number): Promise<number> {
  const rows = await db.query(
    `select 1 from nodes node
     where ${isFree}
     limit $2`,
    [pool, limit],
    { prepared: true },
  );
  return rows.length;
}
