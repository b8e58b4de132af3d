import { expect, test } from 'vitest';
import { countsByPool, fleetDisplay, maxCells, totalOf } from './fleet-size.ts';

const of = (pool: string, status: 'ready' | 'failed', nodes: number, zone: string | null = null) => ({
  ...{ pool, zone, status, nodes, held: status === 'failed' ? 1 : 0 },
});

test('a small fleet is drawn whole, a large one as counts, and a pool of it when opened', () => {
  const small = [of('a', 'ready', maxCells)];
  const large = [...small, of('b', 'ready', 1)];
  expect(fleetDisplay(undefined, undefined, true)).toBe('wait');
  expect(fleetDisplay(small, undefined, true)).toBe('fleet');
  expect(fleetDisplay(small, 'a', true)).toBe('fleet');
  expect(fleetDisplay(large, undefined, true)).toBe('counts');
  expect(fleetDisplay(large, 'a', true)).toBe('pool');
  expect(fleetDisplay(undefined, undefined, false), 'a tenant sees its own').toBe('fleet');
});

test('counts of all zones of a pool are summed', () => {
  const items = [of('b', 'ready', 2, 'z1'), of('a', 'ready', 5), of('b', 'ready', 3, 'z2'), of('b', 'failed', 1)];
  expect(countsByPool(items)).toEqual([
    { pool: 'a', nodes: 5, held: 0, counts: { ready: 5 } },
    { pool: 'b', nodes: 6, held: 1, counts: { ready: 5, failed: 1 } },
  ]);
  expect(totalOf(items)).toBe(11);
});
