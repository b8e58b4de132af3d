/** Checks the order of the live table, how events update it, and how it fits the window. */
import { expect, test } from 'vitest';
import { fleetLines } from '../render/machines/fleet.ts';
import { plain } from '../render/text/palette.ts';
import { displayWidth } from '../render/text/text.ts';
import {
  sampleAllocation,
  sampleIds,
  sampleNode,
  sampleOperation,
  sampleProgress,
  sampleStart,
} from '../testing/samples.ts';
import { applyEvent, type Fleet, fleetOf, nodesInOrder, unplacedAllocations } from './fleet.ts';

const reason = 'could not be proven clean within 900 s: its directory is still there and belongs to another user';
const verdict = { rule: 'clean-deadline', reason, at: sampleStart };
const fleet = (): Fleet =>
  fleetOf(
    [
      sampleNode({ node_id: 'node_a', status: 'ready' }),
      sampleNode({ node_id: 'node_b', status: 'quarantined', verdict }),
      sampleNode({ node_id: 'node_c', status: 'provisioning', workflow_id: sampleIds.workflow_id }),
    ],
    [sampleAllocation({ status: 'requested', node_id: null, reason: 'waiting for capacity' })],
    [sampleOperation({ progress: sampleProgress({ step: 2, label: 'Registering', percent: 45 }) })],
  );
const view = { server: 'http://here', connection: 'live', nowMs: Date.parse(sampleStart) + 60_000, rows: 40 };

test('sorts nodes that need attention first, then those in transition', () => {
  expect(nodesInOrder(fleet()).map(({ node_id }) => node_id)).toEqual(['node_b', 'node_c', 'node_a']);
});

test('puts a machine whose release failed first, with the reason', () => {
  const live = fleet();
  applyEvent(live, {
    kind: 'allocation',
    allocation: sampleAllocation({ status: 'release_failed', reason: 'clean exited with code 3' }),
  });
  live.nodes.set(
    'node_a',
    sampleNode({ node_id: 'node_a', status: 'cleaning', allocation_id: sampleIds.allocation_id }),
  );
  live.nodes.set('node_b', sampleNode({ node_id: 'node_b', status: 'quarantined', allocation_id: null }));
  live.nodes.delete('node_c');
  expect(nodesInOrder(live).map(({ node_id }) => node_id)).toEqual(['node_a', 'node_b']);
  expect(fleetLines(live, view, { width: 120, paint: plain }).join('\n')).toMatch(
    /node_a .*cleaning .*clean exited with code 3/,
  );
});

test('shows progress, reasons and allocations without a machine', () => {
  const lines = fleetLines(fleet(), view, { width: 90, paint: plain });
  expect(lines.slice(0, 2)).toEqual(['http://here · live', '3 nodes: 1 quarantined, 1 provisioning, 1 ready']);
  const text = lines.join('\n');
  expect(text).toContain('2/3 Registering 45 %');
  // The reason is too long for its column, and there is room below its row.
  expect(text.replaceAll(/\s+/g, ' ')).toContain(reason);
  expect(text).toMatch(/Without a machine:\nALLOCATION .*\nalloc_\S+ +local +requested .*waiting for capacity/s);
});

test('fits every line and the number of lines into the window', () => {
  for (const width of [60, 80, 120])
    for (const rows of [12, 24, 50]) {
      const lines = fleetLines(fleet(), { ...view, rows }, { width, paint: plain });
      expect(lines.length, `${rows} rows`).toBeLessThan(rows);
      for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(width);
    }
});

test('applies events, and drops an operation that ended', () => {
  const live = fleet();
  applyEvent(live, { kind: 'node', node: sampleNode({ node_id: 'node_c', status: 'ready' }) });
  applyEvent(live, {
    kind: 'operation',
    operation: sampleOperation({ progress: sampleProgress({ status: 'succeeded' }) }),
  });
  applyEvent(live, { kind: 'allocation', allocation: sampleAllocation({ status: 'released', node_id: null }) });
  expect(live.nodes.get('node_c')?.status).toBe('ready');
  expect(live.operations.size).toBe(0);
  expect(unplacedAllocations(live)).toEqual([]);
});
