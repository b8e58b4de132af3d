/** Whose turn it is: which allocations may have a machine of their pool now, and what the others wait for and behind how many. */
import { pausingRules } from '../../lifecycle/model/rules.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, countWaitingBefore } from '../../store/rows/allocations.ts';
import { countFree } from '../../store/rows/free-nodes.ts';
import { countLiveNodes } from '../../store/rows/nodes.ts';
import type { PoolRow } from '../../store/rows/pools.ts';
import { launchHold } from '../../store/supervision/brake.ts';

/** What keeps the pool from making another machine; undefined when nothing does. */
async function whyNoLaunch(tx: Transaction, pool: PoolRow, launches: boolean, now: Date): Promise<string | undefined> {
  if (!launches) return 'a free machine in the pool';
  if (pool.document.paused) return 'the pool to be unpaused';
  const hold = await launchHold(tx, { name: pool.name, zone: pool.document.zone ?? null }, pausingRules, now);
  return hold && `the brake to let launches go on (${hold.reason})`;
}

async function roomIn(tx: Transaction, { name, document: { max_nodes } }: PoolRow): Promise<number> {
  return max_nodes === undefined ? Number.POSITIVE_INFINITY : Math.max(0, max_nodes - (await countLiveNodes(tx, name)));
}

export interface QueueTurn {
  /** So many new machines the pool may make. */
  room: number;
  isServed(allocation: AllocationRow): boolean;
  /** What one that is not served waits for, once so many before it were given a machine. */
  waitsFor(allocation: AllocationRow, given: number): string;
}

/**
 * Whoever asked first is served first: with room for one, only the oldest may take it. The oldest is waited for even if it is not
 * looking right now, since its operation always looks again. Who looks at the same time is counted among those ahead, so that
 * together they are answered as they would be one after another.
 */
export async function queueTurn(
  tx: Transaction,
  pool: PoolRow,
  allocations: AllocationRow[],
  launches: boolean,
  now: Date,
): Promise<QueueTurn> {
  const barred = await whyNoLaunch(tx, pool, launches, now);
  const room = barred ? 0 : await roomIn(tx, pool);
  const ids = allocations.map(({ allocation_id }) => allocation_id);
  const ahead = room === Number.POSITIVE_INFINITY ? new Map() : await countWaitingBefore(tx, pool.name, ids, launches);
  const aheadOf = ({ allocation_id }: AllocationRow): number => ahead.get(allocation_id) ?? 0;
  const wanted = Math.max(0, ...allocations.map(aheadOf)) + 1;
  const free = wanted > room ? await countFree(tx, pool.name, wanted - room) : 0;
  const missing = barred ?? `room in the pool (${pool.document.max_nodes} nodes at most)`;
  return {
    room,
    isServed: (allocation) => aheadOf(allocation) < room + free,
    waitsFor: (allocation, given) => missing + behind(aheadOf(allocation) - given),
  };
}

/** Exact only near the front: a long queue need not be told anew each time that it moves. */
const maxExact = 10;

function behind(ahead: number): string {
  if (ahead <= 0) return '';
  if (ahead > maxExact) return `, behind more than ${maxExact} others`;
  return `, behind ${ahead} ${ahead === 1 ? 'other' : 'others'}`;
}
