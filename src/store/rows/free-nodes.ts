/** Machines that nobody holds: finding one, without looking each time at all who are held. */
import { secondsLater } from '../../base/clock.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { hasResidue } from './node-residue.ts';
import type { NodeRow } from './nodes.ts';

const isFree = `node.pool = $1 and node.status = 'ready' and not exists (
  select 1 from allocations holder where holder.node_id = node.node_id and holder.status in ('provisioning', 'active', 'releasing', 'release_failed'))
  and not ${hasResidue}`;

/**
 * Of each pool, since when those are ready that were found free at the last search. Whoever is ready for longer is held, and in a pool that
 * is well used that is nearly everybody: to look at each of them again for every machine takes seconds in a large one.
 */
export type FreeNodeHints = Map<string, { since: Date; until: Date }>;

/** Clocks of replicas may differ by less; what one of them writes as earlier is looked at again. */
const clocksApartSeconds = 60;
/** Now and then everybody is looked at: one that was locked just then, or had residue, has become free where nobody looks. */
const trustedSeconds = 600;

/**
 * Nodes of a pool that have been ready and unheld the longest, locked; others that ask at the same time get the next ones. Where too few are
 * found among those that are ready since the last ones were, everybody is looked at.
 */
export async function lockFreeNodes(
  tx: Transaction,
  pool: string,
  most: number,
  now: Date,
  held: FreeNodeHints,
): Promise<NodeRow[]> {
  const search = (since: string) =>
    tx.query<NodeRow>(
      `select node.* from nodes node where ${isFree} and node.status_since >= $2
       order by node.status_since limit ${most} for no key update of node skip locked`,
      [pool, since],
      // Planning takes longer than finding one.
      { often: most === 1 },
    );
  const before = held.get(pool);
  if (before && now < before.until) {
    const found = await search(secondsLater(before.since, -clocksApartSeconds).toISOString());
    if (found.length === most) {
      held.set(pool, { ...before, since: found[0]?.status_since ?? before.since });
      return found;
    }
  }
  const found = await search('-infinity');
  const [first] = found;
  if (first) held.set(pool, { since: first.status_since, until: secondsLater(now, trustedSeconds) });
  return found;
}

/** How many free machines the pool has, up to so many; a pool with many thousands is not counted through. */
export async function countFree(db: Queryable, pool: string, most: number): Promise<number> {
  const rows = await db.query(`select 1 from nodes node where ${isFree} limit $2`, [pool, most], { often: true });
  return rows.length;
}
