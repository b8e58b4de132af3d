/** Whose turn it is: whether an allocation may have a machine of its pool now, or what it waits for and behind how many. */

import { pausingRules } from '../lifecycle/rules.ts';
import { type AllocationRow, countWaitingBefore } from '../store/allocations.ts';
import { launchHold } from '../store/brake.ts';
import type { Transaction } from '../store/database.ts';
import { countLiveNodes, hasMoreFree } from '../store/nodes.ts';
import type { PoolRow } from '../store/pools.ts';

/** What keeps the pool from making another machine; undefined when nothing does. */
async function whatBarsNew(tx: Transaction, pool: PoolRow, launches: boolean, now: Date): Promise<string | undefined> {
  if (!launches) return 'a free machine in the pool';
  if (pool.document.paused) return 'the pool to be unpaused';
  const hold = await launchHold(tx, { name: pool.name, zone: pool.document.zone ?? null }, pausingRules, now);
  return hold && `the brake to let launches go on (${hold.reason})`;
}

/**
 * What the allocation must wait for, if it must. Whoever asked first is served first: with room for one, only the oldest
 * may take it. The oldest is waited for even if it is not looking right now, since its operation always looks again.
 */
export async function whatIsMissing(
  tx: Transaction,
  pool: PoolRow,
  allocation: AllocationRow,
  launches: boolean,
  now: Date,
): Promise<string | undefined> {
  const limit = pool.document.max_nodes;
  const barred = await whatBarsNew(tx, pool, launches, now);
  if (!barred && limit === undefined) return undefined;
  const room = barred ? 0 : await roomIn(tx, pool);
  const ahead = await countWaitingBefore(tx, allocation, launches);
  if (room > ahead || (await hasMoreFree(tx, pool.name, ahead - room))) return undefined;
  return (barred ?? `room in the pool (${limit} nodes at most)`) + behind(ahead);
}

async function roomIn(tx: Transaction, { name, document: { max_nodes } }: PoolRow): Promise<number> {
  return max_nodes === undefined ? Number.POSITIVE_INFINITY : Math.max(0, max_nodes - (await countLiveNodes(tx, name)));
}

/** Whether the pool may make another machine, asked by whoever found none free: one that is free may be in somebody's hands just now. */
export const mayMakeOne = async (tx: Transaction, pool: PoolRow, launches: boolean, now: Date): Promise<boolean> =>
  (await whatBarsNew(tx, pool, launches, now)) === undefined && (await roomIn(tx, pool)) > 0;

/** Exact only near the front: a long queue need not be told anew each time that it moves. */
const tellsExactly = 10;

function behind(ahead: number): string {
  if (ahead === 0) return '';
  if (ahead > tellsExactly) return `, behind more than ${tellsExactly} others`;
  return `, behind ${ahead} ${ahead === 1 ? 'other' : 'others'}`;
}
