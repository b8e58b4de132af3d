/**
 * A pool may let a provision try several instances. A provision makes one attempt where the pool
 * sets no number.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
} from '../../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 150_000 });

let server: TestServer;
let db: DatabaseConnection;
let files: string;
beforeAll(async () => {
  files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
  server = await inProcessServer();
  db = await openDatabaseConnection(server.database_url);
});
afterAll(async () => {
  await db?.close();
  await server?.stop();
  await rm(files, { recursive: true, force: true });
});

const countInstances = (id: string) =>
  db.countRows(
    `select 1
     from instances
     join allocations using (node_id)
     where allocation_id = $1 and instances.created_at >= allocations.created_at`,
    [id],
  );

it('succeeds with a second instance after the first failed, without a new request', async () => {
  const mark = join(files, 'tried');
  await declarePool(server.client, 'stubborn', {
    attempts: 3,
    spec: { setup: `test -e ${mark} || { touch ${mark}; exit 5; }` },
  });
  const id = await allocate(server.client, 'stubborn');
  const active = await waitForStatus(server.client, id, 'active');
  expect(await countInstances(id)).toBe(2);
  expect(await db.countEvidence(id, 'allocation.retrying')).toBe(1);
  expect(active.workflow_id).not.toBeNull();
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  await expectNothingLeft(db, server.nodes_dir, 1);
});

it('stops at the allowed number of attempts, and its operation runs until then', async () => {
  await declarePool(server.client, 'hopeless', { attempts: 2, spec: { setup: 'exit 6' } });
  const id = await allocate(server.client, 'hopeless');
  const failed = await until('both attempts to have failed', async () => {
    const allocation = await server.client.call('allocation-get', { params: { id } });
    const { progress } = allocation;
    const isRunning = progress && ['queued', 'running', 'cancelling'].includes(progress.status);
    // A failed allocation with attempts left still has a running operation.
    if (allocation.status === 'failed' && (await countInstances(id)) < 2) expect(isRunning).toBe(true);
    return allocation.status === 'failed' && !isRunning ? allocation : undefined;
  });
  expect(await countInstances(id)).toBe(2);
  expect(failed.reason).toContain('code 6');
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
});

it('reports that another attempt waits for room, and serves it before later requests', async () => {
  const fit = join(files, 'fit');
  await declarePool(server.client, 'narrow', {
    max_nodes: 1,
    budgets: { rescue_seconds: 0.1 },
    spec: { setup: `test -e ${fit}` },
  });
  const first = await allocate(server.client, 'narrow');
  const { node_id } = await waitForStatus(server.client, first, 'failed');
  await until('the failed machine to be retired', async () => {
    const node = await server.client.call('node-get', { params: { id: node_id ?? '' } });
    return node.status === 'retired';
  });
  await writeFile(fit, '');
  const second = await allocate(server.client, 'narrow');
  await waitForStatus(server.client, second, 'active');
  await server.client.call('allocation-retry', { params: { id: first } });
  const third = await allocate(server.client, 'narrow');
  const waitForMessage = (id: string, message: string) =>
    until(`"${message}"`, async () => {
      const allocation = await readAllocation(server.client, id);
      return allocation.progress?.message === message ? allocation : undefined;
    });
  const waitingAllocation = await waitForMessage(first, 'Waiting for room in the pool (1 nodes at most)');
  expect(waitingAllocation).toMatchObject({ status: 'failed', deadline_at: null, progress: { status: 'running' } });
  expect(waitingAllocation.reason).toMatch(/another try follows$/);
  await waitForMessage(third, 'Waiting for room in the pool (1 nodes at most), behind 1 other');
  await release(server.client, second);
  await waitForStatus(server.client, first, 'active');
  for (const id of [third, first]) await release(server.client, id);
  for (const id of [third, first]) await waitForStatus(server.client, id, 'released');
});

it('makes one attempt where the pool sets none', async () => {
  await declarePool(server.client, 'single', { spec: { setup: 'exit 7' } });
  const id = await allocate(server.client, 'single');
  await waitForStatus(server.client, id, 'failed');
  await until('the operation to end', async () => {
    const { progress } = await server.client.call('allocation-get', { params: { id } });
    return progress?.status === 'failed';
  });
  expect(await countInstances(id)).toBe(1);
  expect(await db.countEvidence(id, 'allocation.retrying')).toBe(0);
});
