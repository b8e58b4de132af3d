/** Keeps joins within `max_nodes` of their pool. */
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { Transaction } from '../../pg/database.ts';
import { countLiveNodes } from '../../rows/nodes.ts';
import type { PoolRow } from '../../rows/pools.ts';

interface Wanting {
  request: { name: string };
  pool: PoolRow;
}

/** Apart from other advisory locks; the second half of the key is the pool. */
const roomLock = 7_213_030;

export const poolFull = ({ name, document }: PoolRow) =>
  new ApiProblem('pool_full', `The pool ${name} holds ${document.max_nodes} nodes at most.`);

async function beyondLimit<Join extends Wanting>(
  tx: Transaction,
  pool: PoolRow,
  limit: number,
  joins: readonly Join[],
): Promise<Join[]> {
  // Joins of one limited pool are admitted one batch after another, so that two batches cannot fill the same room.
  await tx.query('select pg_advisory_xact_lock($1, hashtext($2))', [roomLock, pool.name]);
  const names = joins.map(({ request }) => request.name);
  const known = await tx.query<{ name: string }>(
    `select name from nodes where pool = $1 and name = any($2) and status <> 'retired'`,
    [pool.name, names],
  );
  // A known name takes no room, and neither does the second of two joins under one name.
  const counted = new Set(known.map(({ name }) => name));
  let room = limit - (await countLiveNodes(tx, pool.name));
  return joins.filter(({ request: { name } }) => {
    if (counted.has(name)) return false;
    if (room <= 0) return true;
    room--;
    counted.add(name);
    return false;
  });
}

/** Those for whom their pool has no room; first come, first served. The pools are locked for share by the caller. */
export async function joinsBeyondLimit<Join extends Wanting>(
  tx: Transaction,
  joins: readonly Join[],
): Promise<Set<Join>> {
  const limited = Map.groupBy(joins, ({ pool }) => pool.name);
  const refused = new Set<Join>();
  // In the order of their names, so that two batches never wait for each other in a cycle.
  for (const [, wanting] of [...limited].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [first] = wanting;
    const limit = first?.pool.document.max_nodes;
    if (!first || limit === undefined) continue;
    for (const join of await beyondLimit(tx, first.pool, limit, wanting)) refused.add(join);
  }
  return refused;
}
