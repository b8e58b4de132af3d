/** Checks `--wait` on a pool with several attempts, where one failed attempt is not the outcome. */
import { beforeEach, expect, test } from 'vitest';
import type { Allocation } from '../../contract/allocation.ts';
import type { Progress } from '../../contract/progress.ts';
import { startCli } from '../testing/run-cli.ts';
import { sampleAllocation, sampleIds, sampleOperation, sampleProgress } from '../testing/samples.ts';
import { ScriptedServer } from '../testing/scripted-server.ts';

const id = sampleIds.allocation_id;
const first = sampleIds.workflow_id;
const second = 'op_01k8zq4v9abcdefghjkm';
const at = (s: number) => `2026-01-01T12:00:${String(s).padStart(2, '0')}.000Z`;

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.allocations.set(id, sampleAllocation());
  server.operations.set(first, sampleOperation());
  server.on('allocation-create', () => ({
    status: 202,
    body: { allocation: sampleAllocation(), operation: sampleOperation() },
  }));
  return () => server.stop();
});

const progressAt = (workflow_id: string, s: number, fields: Partial<Progress>) =>
  sampleProgress({ workflow_id, updated_at: at(s), ...fields });
const operationAt = (workflow_id: string, s: number, fields: Partial<Progress>) => {
  const progress = progressAt(workflow_id, s, fields);
  const created_at = workflow_id === first ? at(0) : at(6);
  return sampleOperation({ workflow_id, created_at, status: progress.status, progress });
};
const publishOperation = (workflow_id: string, s: number, fields: Partial<Progress>) =>
  server.publish({ kind: 'operation', operation: operationAt(workflow_id, s, fields) });
const failed = (fields: Partial<Allocation>) =>
  sampleAllocation({ status: 'failed', status_since: at(5), reason: 'set-up ended with code 5', ...fields });
const nextAttemptReason = 'set-up ended with code 5; attempt 2 of 2 follows';

const allocate = () => startCli(['allocate', '--pool', 'stubborn', '--wait'], { server: server.url });

test('reports that the first machine failed, and succeeds with the second', async () => {
  const cli = allocate();
  await cli.waitForText('Step 1/3 · Launching');
  server.publish({ kind: 'allocation', allocation: failed({ progress: progressAt(first, 5, {}) }) });
  publishOperation(first, 5, { label: 'Saving its evidence', step: 2 });
  await cli.waitForText('Saving its evidence');
  // The server sends allocations before operations, and starts the next attempt before it
  // ends the previous one.
  const queued = { status: 'queued', label: 'Removing the former instance' } as const;
  server.operations.set(second, operationAt(second, 6, queued));
  server.publish({
    kind: 'allocation',
    allocation: failed({ workflow_id: second, reason: nextAttemptReason, progress: progressAt(second, 6, queued) }),
  });
  publishOperation(first, 7, { status: 'failed' });
  publishOperation(second, 8, { label: 'Removing the former instance' });
  await cli.waitForText(`! ${nextAttemptReason}`);
  await cli.waitForText('Removing the former instance');
  server.publish({
    kind: 'allocation',
    allocation: sampleAllocation({ status: 'active', status_since: at(12), active_at: at(12), workflow_id: second }),
  });
  const { code, stdout } = await cli.finished;
  expect(code).toBe(0);
  expect(stdout).toContain(`✔ ${id} is active after 12s`);
});

test('fails when the last attempt fails, and prints its reason once', async () => {
  const cli = allocate();
  await cli.waitForText('Step 1/3');
  server.operations.set(second, operationAt(second, 6, { status: 'queued' }));
  server.publish({ kind: 'allocation', allocation: failed({ workflow_id: second, reason: nextAttemptReason }) });
  publishOperation(second, 8, { label: 'Launching again' });
  await cli.waitForText('Launching again');
  const lastFailure = { workflow_id: second, status_since: at(20), reason: 'set-up ended with code 6' };
  server.publish({ kind: 'allocation', allocation: failed(lastFailure) });
  publishOperation(second, 21, { status: 'failed' });
  const { code, stdout } = await cli.finished;
  expect(code).toBe(1);
  expect(stdout.split('set-up ended with code 6')).toHaveLength(2);
});

test('fetches the allocation again when an attempt ends before the allocation names the next one', async () => {
  const cli = allocate();
  await cli.waitForText('Step 1/3');
  // If the attempt ends between the two requests of a poll, the poll sees the old operation id and
  // the end of that operation.
  server.operations.set(second, operationAt(second, 6, { status: 'queued' }));
  server.on('allocation-get', () => ({ body: failed({ workflow_id: second, reason: nextAttemptReason }) }));
  publishOperation(first, 7, { status: 'failed' });
  server.publish({ kind: 'allocation', allocation: failed({ progress: progressAt(first, 5, {}) }) });
  await expect.poll(() => server.callsOf('allocation-get').length, { timeout: 20_000 }).toBeGreaterThan(1);
  publishOperation(second, 9, { label: 'Removing the former instance' });
  await cli.waitForText('Removing the former instance');
  server.publish({
    kind: 'allocation',
    allocation: sampleAllocation({ status: 'active', status_since: at(12), active_at: at(12), workflow_id: second }),
  });
  expect((await cli.finished).code).toBe(0);
});
