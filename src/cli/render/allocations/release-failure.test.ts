/** Checks the text of a failed release in sentences, tables and an allocation. */
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

test('shows step, owner, reason and next try', () => {
  expect(failedReleaseSentences(failed, nowMs)).toBe(
    'Its release failed 31s ago at step clean (owner node): clean exited with code 1. ' +
      'Slipway retries the release in 4m 31s (try 2). Remove the cause, or run retry-release now.',
  );
  expect(failedReleaseSentences(overdue, nowMs)).toMatch(
    /^Its release failed 31s ago \(owner workflow\): its release is overdue \(waited 60 s\)\. Slipway retries the release in /,
  );
  expect(failedReleaseSentences({ ...failed, retry_at: failed.status_since }, nowMs)).toContain(
    'Slipway retries the release now (try 2).',
  );
});

test('renders a failed release as one short phrase in a table cell', () => {
  expect(failedReleaseConcern(failed, nowMs)).toBe('release failed at clean: clean exited with code 1; next try in 4m');
  expect(failedReleaseConcern({ ...overdue, retry_at: failed.status_since }, nowMs)).toBe(
    'release failed: its release is overdue (waited 60 s); next try now',
  );
});

test('hides the deadline of the last try while the machine waits for the next', () => {
  const node = sampleNode({ status: 'cleaning', deadline_at: '2026-01-01T12:00:30.000Z' });
  expect(nodeConcern(node, nowMs)).toBe('overdue');
  expect(nodeConcern(node, nowMs, failed)).toBe(failedReleaseConcern(failed, nowMs));
});

test('shows the status of the machine instead of an outdated reason', () => {
  const active = sampleAllocation({ status: 'active', reason: 'node gpu-3 is ready' });
  const render = (status: 'ready' | 'draining') =>
    allocationLines(active, sampleNode({ status, status_since: failed.status_since }), nowMs, {
      width: 100,
      paint: plain,
    }).join('\n');
  expect(render('draining')).toMatch(/its machine +draining for 31s\n/);
  expect(render('draining')).not.toContain('is ready');
  expect(render('ready')).toMatch(/because +node gpu-3 is ready/);
});

test('shows the next try with the allocation', () => {
  expect(allocationLines(failed, null, nowMs, { width: 100, paint: plain }).join('\n')).toMatch(
    /next try +Slipway retries the release in 4m 31s \(try 2\)\./,
  );
});
