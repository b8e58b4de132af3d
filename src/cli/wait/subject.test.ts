import { describe, expect, test } from 'vitest';
import type { Operation } from '../../contract/operation.ts';
import type { Progress } from '../../contract/progress.ts';
import { sampleAllocation, sampleIds, sampleNode, sampleOperation, sampleProgress } from '../testing/samples.ts';
import {
  emptySubject,
  exitOfWait,
  mergeAllocation,
  mergeNode,
  mergeOperation,
  setbackOf,
  targetKindOf,
} from './subject.ts';

const at = (second: number) => `2026-01-01T12:00:${String(second).padStart(2, '0')}.000Z`;

test('reads the kind of a thing from its id', () => {
  expect([sampleIds.allocation_id, sampleIds.node_id, sampleIds.workflow_id, 'gpu', 'x_1'].map(targetKindOf)).toEqual([
    'allocation',
    'node',
    'operation',
    null,
    null,
  ]);
});

test('returns no kind for a name that does not begin with the prefix of an id', () => {
  expect(['nodes', 'node', 'allocs', 'ops', '_', ''].map(targetKindOf)).toEqual(Array(6).fill(null));
  expect(['toString_1', 'constructor_1'].map(targetKindOf)).toEqual([null, null]);
});

describe('merging updates', () => {
  test('ignores an older update', () => {
    const known = mergeAllocation(emptySubject, sampleAllocation({ status: 'active', status_since: at(9) }));
    expect(mergeAllocation(known, sampleAllocation({ status_since: at(3) }))).toBe(known);
    const node = mergeNode(emptySubject, sampleNode({ status_since: at(9) }));
    expect(mergeNode(node, sampleNode({ status: 'starting', status_since: at(3) }))).toBe(node);
    const later = sampleOperation({ progress: sampleProgress({ percent: 80, updated_at: at(8) }) });
    const running = mergeOperation(emptySubject, later);
    expect(mergeOperation(running, sampleOperation())).toBe(running);
  });
  test('ignores an update of a different allocation', () => {
    const known = mergeAllocation(emptySubject, sampleAllocation());
    expect(mergeAllocation(known, sampleAllocation({ allocation_id: 'alloc_2', status_since: at(9) }))).toBe(known);
  });
  test('replaces an operation by a later one', () => {
    const provision = mergeOperation(emptySubject, sampleOperation());
    const release = sampleOperation({ workflow_id: 'op_2', created_at: at(30) });
    expect(mergeOperation(provision, release).operation?.workflow_id).toBe('op_2');
    expect(mergeOperation(mergeOperation(provision, release), sampleOperation()).operation?.workflow_id).toBe('op_2');
  });
});

test('returns the reason of a failed attempt only while a later attempt runs', () => {
  const allocation = sampleAllocation({
    status: 'failed',
    status_since: at(5),
    reason: 'boom; attempt 2 of 2 follows',
  });
  const setback = (operation: Operation | null) => setbackOf({ ...emptySubject, allocation, operation });
  expect(setback(sampleOperation({ created_at: at(5) }))).toBe('boom; attempt 2 of 2 follows');
  expect(setback(sampleOperation({ created_at: at(4) }))).toBeNull();
  expect(setback(sampleOperation({ created_at: at(5), progress: sampleProgress({ status: 'failed' }) }))).toBeNull();
  expect(setback(null)).toBeNull();
});

describe('a wait', () => {
  const allocation = (status: Parameters<typeof sampleAllocation>[0]) => ({
    ...emptySubject,
    allocation: sampleAllocation(status),
  });
  test.each([
    ['use', 'requested', null],
    ['use', 'provisioning', null],
    ['use', 'active', 'ok'],
    ['use', 'failed', 'failed'],
    ['use', 'releasing', null],
    ['use', 'released', 'failed'],
    ['release', 'active', null],
    ['release', 'releasing', null],
    ['release', 'released', 'ok'],
    ['release', 'release_failed', 'failed'],
    ['settle', 'released', 'ok'],
    ['settle', 'release_failed', 'failed'],
  ] as const)('with the goal %s and the status %s has the exit %s', (goal, status, end) => {
    expect(exitOfWait(allocation({ status }), goal)).toBe(end);
  });
  test('continues while a release is retried', () => {
    const trying = { ...allocation({ status: 'release_failed' }), operation: sampleOperation() };
    expect(exitOfWait(trying, 'release')).toBeNull();
  });
  test('continues while an operation runs on a failed allocation, even if only the allocation names it', () => {
    const ended = sampleOperation({ status: 'failed', progress: sampleProgress({ status: 'failed' }) });
    const failed = (operation: Operation | null, named: Progress | null) => ({
      ...emptySubject,
      allocation: sampleAllocation({ status: 'failed', progress: named }),
      operation,
    });
    const next = (status: Progress['status']) => sampleProgress({ workflow_id: 'op_2', status });
    for (const goal of ['use', 'settle'] as const) {
      expect(exitOfWait(failed(sampleOperation(), null), goal)).toBeNull();
      expect(exitOfWait(failed(ended, next('queued')), goal)).toBeNull();
      expect(exitOfWait(failed(null, next('running')), goal)).toBeNull();
      // The operation has ended, so the progress in the allocation is stale.
      expect(exitOfWait(failed(ended, sampleProgress()), goal)).toBe('failed');
      expect(exitOfWait(failed(ended, next('failed')), goal)).toBe('failed');
    }
  });
  test('ends according to the status of a node or an operation', () => {
    expect(exitOfWait({ ...emptySubject, node: sampleNode({ status: 'starting' }) }, 'settle')).toBeNull();
    expect(exitOfWait({ ...emptySubject, node: sampleNode({ status: 'quarantined' }) }, 'settle')).toBe('failed');
    expect(exitOfWait({ ...emptySubject, operation: sampleOperation() }, 'settle')).toBeNull();
    expect(exitOfWait({ ...emptySubject, operation: sampleOperation({ status: 'cancelled' }) }, 'settle')).toBe(
      'failed',
    );
  });
});
