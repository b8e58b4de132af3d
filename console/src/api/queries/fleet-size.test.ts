import { expect, test } from 'vitest';
import { countsByPool, fleetDisplay, maxCells, totalOf } from './fleet-size.ts';

const poolStatus = (pool: string, status: 'ready' | 'failed', nodes: number, zone: string | null = null) => ({
  ...{ pool, zone, status, nodes, held: status === 'failed' ? 1 : 0 },
});

test('draws a small fleet whole, a large fleet as counts, and one pool of it when opened', () => {
  const small = [poolStatus('a', 'ready', maxCells)];
  const large = [...small, poolStatus('b', 'ready', 1)];
  expect(fleetDisplay(undefined, undefined, true)).toBe('wait');
  expect(fleetDisplay(small, undefined, true)).toBe('fleet');
  expect(fleetDisplay(small, 'a', true)).toBe('fleet');
  expect(fleetDisplay(large, undefined, true)).toBe('counts');
  expect(fleetDisplay(large, 'a', true)).toBe('pool');
  expect(fleetDisplay(undefined, undefined, false), 'a tenant has few machines').toBe('fleet');
});

test('sums the counts of all zones of a pool', () => {
  const items = [
    poolStatus('b', 'ready', 2, 'z1'),
    poolStatus('a', 'ready', 5),
    poolStatus('b', 'ready', 3, 'z2'),
    poolStatus('b', 'failed', 1),
  ];
  expect(countsByPool(items)).toEqual([
    { pool: 'a', nodes: 5, held: 0, counts: { ready: 5 } },
    { pool: 'b', nodes: 6, held: 1, counts: { ready: 5, failed: 1 } },
  ]);
  expect(totalOf(items)).toBe(11);
});
