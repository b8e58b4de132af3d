import { expect, test } from 'vitest';
import type { FleetCounts } from '../../../contract/fleet/fleet.ts';
import type { Pool } from '../../../contract/pool.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { sampleAllocation, samplePool } from '../../testing/samples.ts';
import { plain } from '../text/palette.ts';
import { type PoolStanding, waitingAllocationLines } from './waiting-allocation.ts';

const nowMs = Date.parse('2026-01-01T12:30:00.000Z');
const context = {
  paint: plain,
  width: 1000,
  nowMs,
  commandLine: (...words: string[]) => ['slipway', ...words].join(' '),
};
const deadline_at = '2026-01-01T12:45:00.000Z';
const waiting = sampleAllocation({ status: 'requested', node_id: null, pool: 'gpu', deadline_at });

const counted = (counts: Partial<Record<NodeStatus, number>>, pool = 'gpu'): FleetCounts['items'] =>
  Object.entries(counts).map(([status, nodes]) => ({
    ...{ pool, zone: null, status: status as NodeStatus, nodes, held: 0 },
  }));
const told = (standing: PoolStanding, allocation = waiting) =>
  waitingAllocationLines(allocation, { standing, actions: [] }, context).join('\n');
const toldOf = (pool: Partial<Pool>, counts: FleetCounts['items'] = []) =>
  told({ pool: samplePool({ name: 'gpu', ...pool }), counts });

test('why none is free, by who holds them and how the others stand, and nothing of other pools', () => {
  const counts = [
    ...counted({ ready: 2, degraded: 1, starting: 1, offline: 2, quarantined: 1 }),
    ...counted({ ready: 7, failed: 7 }, 'other'),
  ];
  expect(toldOf({ nodes: { live: 7, free: 0 } }, counts)).toContain(
    'Pool gpu has 7 machines: 3 are held by other allocations, 1 is starting, 2 are offline, 1 is quarantined.',
  );
  expect(toldOf({ nodes: { live: 2, free: 1 } }, counted({ ready: 2 }))).toContain(
    'Pool gpu has 2 machines: 1 is held by other allocations, 1 is held by nobody, but degraded, with something left',
  );
  expect(toldOf({ nodes: { live: 0, free: 0 } })).toContain('Pool gpu has no machine.');
});

test.for<[string, Partial<Pool>, string, string]>([
  ['external', { driver: 'external', max_nodes: 1 }, 'somebody must bring one', 'slipway join-token create gpu'],
  ['paused', { paused: true }, 'The pool is paused', 'slipway apply -f pools.yaml'],
  ['full', { max_nodes: 1 }, 'It may have 1 at most (max_nodes)', 'Raise max_nodes'],
  ['not full', { max_nodes: 2 }, 'There is room for a new machine', 'slipway brake'],
  ['without a limit', {}, 'There is room for a new machine', 'slipway brake'],
])('whether a pool that is %s will have more, and the way out', ([, pool, says, way_out]) => {
  const text = toldOf({ nodes: { live: 1, free: 0 }, ...pool }, counted({ ready: 1 }));
  expect(text).toContain(says);
  expect(text).toContain(way_out);
  expect(text).toContain('slipway allocations --pool gpu');
});

test('until when it waits', () => {
  expect(told('unseen')).toContain('It is given up in 15m, at 2026-01-01 12:45:00Z, if');
  expect(told('unseen', { ...waiting, deadline_at: null })).not.toContain('given up');
});

test('a pool that is not to be seen, or is gone, is not guessed at', () => {
  expect(told('unseen')).toMatch(/How pool gpu stands is seen by the operators of the fleet/);
  expect(told('unseen')).not.toContain('--pool');
  expect(told('gone')).toMatch(/There is no pool gpu any more\.(.|\n)*slipway apply -f pools\.yaml/);
});
