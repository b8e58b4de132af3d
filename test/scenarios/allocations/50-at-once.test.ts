/**
 * Fifty machines come up and go down at once. A pool with a small limit serves requests in order.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
} from '../../support/database-connection.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';

let server: SpawnedServer;
let db: DatabaseConnection;
beforeAll(async () => {
  server = await spawnServer();
  db = await openDatabaseConnection(server.database_url);
});
afterAll(async () => {
  await db?.close();
  await server?.stop();
});

const times = (count: number) => Array.from({ length: count });
const readIdsWithStatus = async (pool: string, status: string) =>
  (
    await db.query<{ allocation_id: string }>(
      'select allocation_id from allocations where pool = $1 and status = $2 order by active_at, allocation_id',
      [pool, status],
    )
  ).map((row) => row.allocation_id);
const waitForAll = (pool: string, status: string, count: number) =>
  until(`${count} of ${pool} to be ${status}`, async () => (await readIdsWithStatus(pool, status)).length === count, {
    seconds: 120,
    every_ms: 100,
  });

it('brings fifty machines up and down at once and leaves nothing behind', async () => {
  const count = 50;
  const startedMs = performance.now();
  const ids = await Promise.all(times(count).map(() => allocate(server.client, 'local')));
  await waitForAll('local', 'active', count);
  const activeMs = performance.now();
  const agentProcesses = findTaggedProcesses(db.installation_id).filter((process) => process.agent);
  expect(new Set(agentProcesses.map((process) => process.node_instance_id)).size).toBe(count);
  expect(agentProcesses).toHaveLength(count);

  await Promise.all(ids.map((id) => release(server.client, id)));
  await waitForAll('local', 'released', count);
  const releasedMs = performance.now();
  console.log(
    `${count} at once: active after ${((activeMs - startedMs) / 1000).toFixed(1)} s, released after ${((releasedMs - activeMs) / 1000).toFixed(1)} s`,
  );
  await expectNothingLeft(db, server.nodes_dir, 1);
  expect(await db.countRows(`select 1 from evidence where kind = 'proof.absent'`)).toBe(count);
}, 300_000);

it('serves ten requests in their order in a pool limited to three nodes', async () => {
  const pool = 'narrow';
  await declarePool(server.client, pool, { max_nodes: 3 });
  const requestedIds: string[] = [];
  for (const _ of times(10)) requestedIds.push(await allocate(server.client, pool));
  for (const id of requestedIds.slice(0, 3)) await waitForStatus(server.client, id, 'active');
  const last = requestedIds.at(-1) ?? '';
  await until(
    'the last request to report that it waits',
    async () => {
      const { status, progress } = await readAllocation(server.client, last);
      return (
        status === 'requested' &&
        progress?.message === 'Waiting for room in the pool (3 nodes at most), behind 6 others'
      );
    },
    { seconds: 60 },
  );

  // The newest machine is released each time, so only the order of the requests can explain which
  // one is served next.
  const servedIds = await readIdsWithStatus(pool, 'active');
  while (servedIds.length < requestedIds.length) {
    const newest = servedIds.at(-1) ?? '';
    await release(server.client, newest);
    const next = requestedIds[servedIds.length] ?? '';
    await waitForStatus(server.client, next, 'active');
    servedIds.push(next);
    expect(
      await db.countRows(`select 1 from nodes where pool = $1 and status <> 'retired'`, [pool]),
    ).toBeLessThanOrEqual(3);
  }
  expect(servedIds.toSorted()).toEqual(requestedIds.toSorted());
  for (const id of await readIdsWithStatus(pool, 'active')) await release(server.client, id);
  await waitForAll(pool, 'released', 10);
  await expectNothingLeft(db, server.nodes_dir, 1);
}, 180_000);

it('fails a queued request at its deadline, and refuses requests while the pool is paused', async () => {
  const pool = 'full';
  await declarePool(server.client, pool, { max_nodes: 0, budgets: { queue_seconds: 1 } });
  const unservable = await allocate(server.client, pool);
  const failed = await waitForStatus(server.client, unservable, 'failed');
  expect(failed.verdict?.rule).toBe('queue-deadline');
  const { items } = await server.client.call('operation-list', { query: { allocation_id: unservable } });
  await until(
    'the operation of the request to fail',
    async () =>
      (await server.client.call('operation-get', { params: { id: items[0]?.workflow_id ?? '' } })).error?.code ===
      'queue-deadline',
    { seconds: 60 },
  );
  expect(failed.reason).toMatch(/^no machine was available in time \(waited \d+ s, budget from pool\)$/);

  await declarePool(server.client, pool, { paused: true });
  await expect(allocate(server.client, pool)).rejects.toMatchObject({ problem: { code: 'pool_paused' } });
  await declarePool(server.client, pool, { max_nodes: 0 });
  const waitingId = await allocate(server.client, pool);
  await declarePool(server.client, pool, { max_nodes: 1, paused: true });
  await until(
    'the request to wait for the paused pool',
    async () =>
      (await readAllocation(server.client, waitingId)).progress?.message === 'Waiting for the pool to be unpaused',
    { seconds: 60 },
  );
  await declarePool(server.client, pool, { max_nodes: 1 });
  await waitForStatus(server.client, waitingId, 'active');
  for (const id of [waitingId, unservable]) {
    await release(server.client, id);
    await waitForStatus(server.client, id, 'released');
  }
  await expectNothingLeft(db, server.nodes_dir, 1);
}, 120_000);
