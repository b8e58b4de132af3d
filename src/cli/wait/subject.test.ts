import { describe, expect, test } from 'vitest';
import type { Operation } from '../../contract/operation.ts';
import type { Progress } from '../../contract/progress.ts';
import { sampleAllocation, sampleIds, sampleNode, sampleOperation, sampleProgress } from '../testing/samples.ts';
import { settlementOf } from './settlement.ts';
import { kindOfId, learnAllocation, learnNode, learnOperation, nothingKnown, setbackOf } from './subject.ts';

const at = (second: number) => `2026-01-01T12:00:${String(second).padStart(2, '0')}.000Z`;

test('an id says what it names', () => {
  expect([sampleIds.allocation_id, sampleIds.node_id, sampleIds.workflow_id, 'gpu', 'x_1'].map(kindOfId)).toEqual([
    'allocation',
    'node',
    'operation',
    null,
    null,
  ]);
});

describe('news', () => {
  test('that is older than what is known changes nothing', () => {
    const known = learnAllocation(nothingKnown, sampleAllocation({ status: 'active', status_since: at(9) }));
    expect(learnAllocation(known, sampleAllocation({ status_since: at(3) }))).toBe(known);
    const node = learnNode(nothingKnown, sampleNode({ status_since: at(9) }));
    expect(learnNode(node, sampleNode({ status: 'starting', status_since: at(3) }))).toBe(node);
    const later = sampleOperation({ progress: sampleProgress({ percent: 80, updated_at: at(8) }) });
    const running = learnOperation(nothingKnown, later);
    expect(learnOperation(running, sampleOperation())).toBe(running);
  });
  test('of another thing is not mixed in', () => {
    const known = learnAllocation(nothingKnown, sampleAllocation());
    expect(learnAllocation(known, sampleAllocation({ allocation_id: 'alloc_2', status_since: at(9) }))).toBe(known);
  });
  test('of a later operation replaces the earlier one', () => {
    const provision = learnOperation(nothingKnown, sampleOperation());
    const release = sampleOperation({ workflow_id: 'op_2', created_at: at(30) });
    expect(learnOperation(provision, release).operation?.workflow_id).toBe('op_2');
    expect(learnOperation(learnOperation(provision, release), sampleOperation()).operation?.workflow_id).toBe('op_2');
  });
});

test('a setback is told while the try that was asked for after it goes on, and not of one that simply failed', () => {
  const allocation = sampleAllocation({
    status: 'failed',
    status_since: at(5),
    reason: 'boom; attempt 2 of 2 follows',
  });
  const told = (operation: Operation | null) => setbackOf({ ...nothingKnown, allocation, operation });
  expect(told(sampleOperation({ created_at: at(5) }))).toBe('boom; attempt 2 of 2 follows');
  expect(told(sampleOperation({ created_at: at(4) }))).toBeNull();
  expect(told(sampleOperation({ created_at: at(5), progress: sampleProgress({ status: 'failed' }) }))).toBeNull();
  expect(told(null)).toBeNull();
});

describe('a waiting is over', () => {
  const allocation = (status: Parameters<typeof sampleAllocation>[0]) => ({
    ...nothingKnown,
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
  ] as const)('for %s at %s: %s', (goal, status, end) => {
    expect(settlementOf(allocation({ status }), goal)).toBe(end);
  });
  test('not while a repeated release is still being tried', () => {
    const trying = { ...allocation({ status: 'release_failed' }), operation: sampleOperation() };
    expect(settlementOf(trying, 'release')).toBeNull();
  });
  test('not while the operation on a failed one is open, or a newer one that only the allocation names', () => {
    const ended = sampleOperation({ status: 'failed', progress: sampleProgress({ status: 'failed' }) });
    const failed = (operation: Operation | null, named: Progress | null) => ({
      ...nothingKnown,
      allocation: sampleAllocation({ status: 'failed', progress: named }),
      operation,
    });
    const next = (status: Progress['status']) => sampleProgress({ workflow_id: 'op_2', status });
    for (const goal of ['use', 'settle'] as const) {
      expect(settlementOf(failed(sampleOperation(), null), goal)).toBeNull();
      expect(settlementOf(failed(ended, next('queued')), goal)).toBeNull();
      expect(settlementOf(failed(null, next('running')), goal)).toBeNull();
      // What the allocation says about the very operation whose end is known is old.
      expect(settlementOf(failed(ended, sampleProgress()), goal)).toBe('failed');
      expect(settlementOf(failed(ended, next('failed')), goal)).toBe('failed');
    }
  });
  test('for nodes and operations by their own status', () => {
    expect(settlementOf({ ...nothingKnown, node: sampleNode({ status: 'starting' }) }, 'settle')).toBeNull();
    expect(settlementOf({ ...nothingKnown, node: sampleNode({ status: 'quarantined' }) }, 'settle')).toBe('failed');
    expect(settlementOf({ ...nothingKnown, operation: sampleOperation() }, 'settle')).toBeNull();
    expect(settlementOf({ ...nothingKnown, operation: sampleOperation({ status: 'cancelled' }) }, 'settle')).toBe(
      'failed',
    );
  });
});
