/** Refuses joins beyond `max_nodes` of their pool. */
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { Transaction } from '../../pg/database.ts';
import { countLiveNodes } from '../../rows/nodes.ts';
import type { PoolRow } from '../../rows/pools.ts';

interface PendingJoin {
  request: { name: string };
  pool: PoolRow;
}

/** The first half of the advisory lock's key. The second half is a hash of the pool's name. */
const poolLimitLock = 7_213_030;

export const poolFullProblem = ({ name, document }: PoolRow) =>
  new ApiProblem('pool_full', `The pool ${name} holds ${document.max_nodes} nodes at most.`);

async function findBeyondPoolLimit<Join extends PendingJoin>(
  tx: Transaction,
  pool: PoolRow,
  limit: number,
  joins: readonly Join[],
): Promise<Join[]> {
  // Batches of one limited pool run one after another, so that two cannot take the same free place.
  await tx.query('select pg_advisory_xact_lock($1, hashtext($2))', [poolLimitLock, pool.name]);
  const names = joins.map(({ request }) => request.name);
  const known = await tx.query<{ name: string }>(
    `select name
     from nodes
     where pool = $1
       and name = any($2)
       and status <> 'retired'`,
    [pool.name, names],
  );
  // A known name takes no place, and neither does the second of two joins under one name.
  const countedNames = new Set(known.map(({ name }) => name));
  let places = limit - (await countLiveNodes(tx, pool.name));
  return joins.filter(({ request: { name } }) => {
    if (countedNames.has(name)) return false;
    if (places <= 0) return true;
    places--;
    countedNames.add(name);
    return false;
  });
}

/**
 * Returns the joins that their pool has no place for, in order of arrival. The caller holds the
 * pools locked for share.
 */
export async function findJoinsBeyondLimit<Join extends PendingJoin>(
  tx: Transaction,
  joins: readonly Join[],
): Promise<Set<Join>> {
  const joinsByPool = Map.groupBy(joins, ({ pool }) => pool.name);
  const refused = new Set<Join>();
  // Pools are locked in the order of their names, so that two batches cannot deadlock.
  for (const [, pending] of [...joinsByPool].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [first] = pending;
    const limit = first?.pool.document.max_nodes;
    if (!first || limit === undefined) continue;
    for (const join of await findBeyondPoolLimit(tx, first.pool, limit, pending)) refused.add(join);
  }
  return refused;
}
