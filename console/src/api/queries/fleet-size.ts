/**
 * Decides how to draw a fleet: each machine as a cell, or counts by pool when there are too many.
 * Pure.
 */
import type { FleetCounts } from '../../../../src/contract/fleet/fleet.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';

/**
 * A browser can hold and draw this many machines. A million would take fifty replies and hundreds
 * of megabytes.
 */
export const maxCells = 100_000;

type Counts = FleetCounts['items'];

export interface PoolCount {
  pool: string;
  nodes: number;
  held: number;
  counts: Partial<Record<NodeStatus, number>>;
}

export function countsByPool(items: Counts): PoolCount[] {
  const pools = new Map<string, PoolCount>();
  for (const { pool, status, nodes, held } of items) {
    const known = pools.get(pool) ?? { pool, nodes: 0, held: 0, counts: {} };
    known.nodes += nodes;
    known.held += held;
    known.counts[status] = (known.counts[status] ?? 0) + nodes;
    pools.set(pool, known);
  }
  return [...pools.values()].toSorted((a, b) => a.pool.localeCompare(b.pool));
}

export const totalOf = (items: Counts): number => items.reduce((sum, { nodes }) => sum + nodes, 0);

/**
 * Reads no machines until the total is known. Tenants cannot read the total, but have few machines.
 */
export function fleetDisplay(
  items: Counts | undefined,
  pool: string | undefined,
  seesAll: boolean,
): 'wait' | 'fleet' | 'pool' | 'counts' {
  if (!seesAll) return 'fleet';
  if (!items) return 'wait';
  if (totalOf(items) <= maxCells) return 'fleet';
  return pool === undefined ? 'counts' : 'pool';
}
