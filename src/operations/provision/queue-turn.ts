/** Decides which allocations may get a machine of their pool now, and what the others wait for. */
import { pausingRules } from '../../lifecycle/model/rules.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { type AllocationRow, countWaitingBefore } from '../../store/rows/allocations.ts';
import { countFree } from '../../store/rows/free-nodes.ts';
import { countLiveNodes } from '../../store/rows/nodes.ts';
import type { PoolRow } from '../../store/rows/pools.ts';
import { findLaunchHold } from '../../store/supervision/brake.ts';

/** Returns what the pool's next launch waits for, or undefined if the pool may launch. */
async function readLaunchBlocker(
  tx: Transaction,
  pool: PoolRow,
  launches: boolean,
  now: Date,
): Promise<string | undefined> {
  if (!launches) return 'a free machine in the pool';
  if (pool.document.paused) return 'the pool to be unpaused';
  const hold = await findLaunchHold(tx, { name: pool.name, zone: pool.document.zone ?? null }, pausingRules, now);
  return hold && `the brake to allow launches again (${hold.reason})`;
}

async function readRoom(tx: Transaction, { name, document: { max_nodes } }: PoolRow): Promise<number> {
  return max_nodes === undefined ? Number.POSITIVE_INFINITY : Math.max(0, max_nodes - (await countLiveNodes(tx, name)));
}

export interface QueueTurn {
  /** How many new machines the pool may launch. */
  room: number;
  isServed(allocation: AllocationRow): boolean;
  /** Says what an allocation waits for, after this many machines were assigned ahead of it. */
  waitsFor(allocation: AllocationRow, assigned: number): string;
}

/**
 * First come, first served: with room for one machine, only the oldest request gets it, even if the
 * operation of that request is not polling right now. Requests of the same batch are ahead of each
 * other too, so a batch gets the same answers as single requests.
 */
export async function readQueueTurn(
  tx: Transaction,
  pool: PoolRow,
  allocations: AllocationRow[],
  launches: boolean,
  now: Date,
): Promise<QueueTurn> {
  const launchBlocker = await readLaunchBlocker(tx, pool, launches, now);
  const room = launchBlocker ? 0 : await readRoom(tx, pool);
  const ids = allocations.map(({ allocation_id }) => allocation_id);
  const ahead = room === Number.POSITIVE_INFINITY ? new Map() : await countWaitingBefore(tx, pool.name, ids, launches);
  const aheadOf = ({ allocation_id }: AllocationRow): number => ahead.get(allocation_id) ?? 0;
  const wanted = Math.max(0, ...allocations.map(aheadOf)) + 1;
  const free = wanted > room ? await countFree(tx, pool.name, wanted - room) : 0;
  const missing = launchBlocker ?? `room in the pool (${pool.document.max_nodes} nodes at most)`;
  return {
    room,
    isServed: (allocation) => aheadOf(allocation) < room + free,
    waitsFor: (allocation, assigned) => missing + describeQueue(aheadOf(allocation) - assigned),
  };
}

/** A position further back is not exact, because each change of a position is published. */
const maxExact = 10;

function describeQueue(ahead: number): string {
  if (ahead <= 0) return '';
  if (ahead > maxExact) return `, behind more than ${maxExact} others`;
  return `, behind ${ahead} ${ahead === 1 ? 'other' : 'others'}`;
}
