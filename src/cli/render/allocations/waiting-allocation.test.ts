/** Checks the text of an allocation that waits for a machine. */
import { expect, test } from 'vitest';
import type { FleetCounts } from '../../../contract/fleet/fleet.ts';
import type { Pool } from '../../../contract/pool.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { sampleAllocation, samplePool } from '../../testing/samples.ts';
import { plain } from '../text/palette.ts';
import { type PoolCapacity, waitingAllocationLines } from './waiting-allocation.ts';

const nowMs = Date.parse('2026-01-01T12:30:00.000Z');
const context = {
  paint: plain,
  width: 1000,
  nowMs,
  commandLine: (...words: string[]) => ['slipway', ...words].join(' '),
};
const deadline_at = '2026-01-01T12:45:00.000Z';
const waiting = sampleAllocation({ status: 'requested', node_id: null, pool: 'gpu', deadline_at });

const countsOf = (counts: Partial<Record<NodeStatus, number>>, pool = 'gpu'): FleetCounts['items'] =>
  Object.entries(counts).map(([status, nodes]) => ({
    ...{ pool, zone: null, status: status as NodeStatus, nodes, held: 0 },
  }));
const render = (capacity: PoolCapacity, allocation = waiting) =>
  waitingAllocationLines(allocation, { capacity, actions: [] }, context).join('\n');
const renderPool = (pool: Partial<Pool>, counts: FleetCounts['items'] = []) =>
  render({ pool: samplePool({ name: 'gpu', ...pool }), counts });

test('counts held machines and the statuses of the others, of this pool only', () => {
  const counts = [
    ...countsOf({ ready: 2, degraded: 1, starting: 1, offline: 2, quarantined: 1 }),
    ...countsOf({ ready: 7, failed: 7 }, 'other'),
  ];
  expect(renderPool({ nodes: { live: 7, free: 0 } }, counts)).toContain(
    'Pool gpu has 7 machines: 2 are held by other allocations, 1 is starting, 1 is degraded, 2 are offline, 1 is quarantined.',
  );
  expect(renderPool({ nodes: { live: 2, free: 1 } }, countsOf({ ready: 2 }))).toContain(
    'Pool gpu has 2 machines: 1 is held by other allocations, 1 is free, but with residue',
  );
  expect(renderPool({ nodes: { live: 0, free: 0 } })).toContain('Pool gpu has no machine.');
});

test.for<[string, Partial<Pool>, string, string]>([
  ['external', { driver: 'external', max_nodes: 1 }, 'a machine must join', 'slipway join-token create gpu'],
  ['paused', { paused: true }, 'The pool is paused', 'slipway apply -f pools.yaml'],
  ['full', { max_nodes: 1 }, 'The pool may have at most 1 (max_nodes)', 'Raise max_nodes'],
  ['not full', { max_nodes: 2 }, 'There is room for a new machine', 'slipway brake'],
  ['without a limit', {}, 'There is room for a new machine', 'slipway brake'],
])('says whether a pool that is %s gets more machines, with a hint', ([, pool, sentence, hint]) => {
  const text = renderPool({ nodes: { live: 1, free: 0 }, ...pool }, countsOf({ ready: 1 }));
  expect(text).toContain(sentence);
  expect(text).toContain(hint);
  expect(text).toContain('slipway allocations --pool gpu');
});

test('shows the deadline of the wait', () => {
  expect(render('hidden')).toContain('Without a machine it fails in 15m, at 2026-01-01 12:45:00Z.');
  expect(render('hidden', { ...waiting, deadline_at: null })).not.toContain('it fails');
});

test('says that the token may not read the pool, or that the pool was deleted', () => {
  expect(render('hidden')).toContain('Your token may not read pool gpu');
  expect(render('hidden')).not.toContain('--pool');
  expect(render('deleted')).toMatch(/Pool gpu no longer exists\.(.|\n)*slipway apply -f pools\.yaml/);
});
