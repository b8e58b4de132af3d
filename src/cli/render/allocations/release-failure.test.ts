import { expect, test } from 'vitest';
import { sampleAllocation, sampleNode, sampleProgress } from '../../testing/samples.ts';
import { nodeConcern } from '../machines/node.ts';
import { plain } from '../text/palette.ts';
import { allocationLines } from './allocation.ts';
import { failedReleaseConcern, failedReleaseSentences } from './release-failure.ts';

const nowMs = Date.parse('2026-01-01T12:00:31.000Z');
const failed = sampleAllocation({
  status: 'release_failed',
  status_since: '2026-01-01T12:00:00.000Z',
  reason: 'release failed at step clean (owner node): clean exited with code 1',
  owner_layer: 'node',
  progress: sampleProgress({
    status: 'failed',
    error: { code: 'clean_failed', owner_layer: 'node', step: 'clean', message: 'clean exited with code 1' },
  }),
  release_tries: 1,
  retry_at: '2026-01-01T12:05:02.000Z',
});
const overdue = {
  ...failed,
  progress: sampleProgress(),
  owner_layer: 'workflow',
  reason: 'its release is overdue (waited 60 s)',
} as const;

test('what failed, whose problem it is, and when it is tried again', () => {
  expect(failedReleaseSentences(failed, nowMs)).toBe(
    'Its release failed 31s ago at step clean (owner node): clean exited with code 1. ' +
      'It is tried again in 4m 31s (try 2). Remove the cause, or retry-release now.',
  );
  expect(failedReleaseSentences(overdue, nowMs)).toMatch(
    /^Its release failed 31s ago \(owner workflow\): its release is overdue \(waited 60 s\)\. It is tried again in /,
  );
  expect(failedReleaseSentences({ ...failed, retry_at: failed.status_since }, nowMs)).toContain(
    'It is tried again now (try 2).',
  );
});

test('in a line of a table', () => {
  expect(failedReleaseConcern(failed, nowMs)).toBe('release failed at clean: clean exited with code 1; next try in 4m');
  expect(failedReleaseConcern({ ...overdue, retry_at: failed.status_since }, nowMs)).toBe(
    'release failed: its release is overdue (waited 60 s); next try now',
  );
});

test('a machine that waits for the next try shows no deadline of the last one', () => {
  const node = sampleNode({ status: 'cleaning', deadline_at: '2026-01-01T12:00:30.000Z' });
  expect(nodeConcern(node, nowMs)).toBe('overdue');
  expect(nodeConcern(node, nowMs, failed)).toBe(failedReleaseConcern(failed, nowMs));
});

test('an allocation in use says where its machine stands, and not that it was ready once', () => {
  const active = sampleAllocation({ status: 'active', reason: 'node gpu-3 is ready' });
  const shown = (status: 'ready' | 'draining') =>
    allocationLines(active, sampleNode({ status, status_since: failed.status_since }), nowMs, {
      width: 100,
      paint: plain,
    }).join('\n');
  expect(shown('draining')).toMatch(/its machine +draining for 31s\n/);
  expect(shown('draining')).not.toContain('is ready');
  expect(shown('ready')).toMatch(/because +node gpu-3 is ready/);
});

test('all about the allocation tells the next try', () => {
  expect(allocationLines(failed, null, nowMs, { width: 100, paint: plain }).join('\n')).toMatch(
    /next try +It is tried again in 4m 31s \(try 2\)\./,
  );
});
