/** SIGTERM to one of two replicas: it becomes unready, hands over its work, then closes. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../support/allocations.ts';
import { type DatabaseConnection, expectNothingLeft, openDatabaseConnection } from '../support/database-connection.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

/** Long enough for what the test does meanwhile, on a busy machine. */
const drainSeconds = 45;

let stoppingServer: SpawnedServer;
let remainingServer: SpawnedServer;
let db: DatabaseConnection;
let gates: string;
/** Allocations whose operation the other replica ran. */
let idsOfOtherServer: string[];

beforeEach(async () => {
  idsOfOtherServer = [];
  gates = await mkdtemp(join(tmpdir(), 'slipway-gates-'));
  stoppingServer = await spawnServer({ args: ['--drain-seconds', String(drainSeconds)] });
  db = await openDatabaseConnection(stoppingServer.database_url);
  // The machines of a pool get the addresses of all replicas that run at their launch.
  remainingServer = await spawnServer({ beside: stoppingServer });
});
afterEach(async () => {
  await db.close();
  await stoppingServer.kill();
  await remainingServer.stop();
  await stoppingServer.stop();
  await rm(gates, { recursive: true, force: true });
});

const readExecutorPid = async (allocation_id: string) => {
  const rows = await db.query<{ pid: number }>(
    `select replicas.pid
     from operations
     join replicas using (replica_id)
     where operations.allocation_id = $1`,
    [allocation_id],
  );
  return rows[0]?.pid;
};

/** How the replica of this process ended; `taken_over_by` is null if it announced its own end. */
const endOf = async (pid: number) => {
  const rows = await db.query<{ taken_over_by: string | null }>(
    `select fact.data ->> 'taken_over_by' as taken_over_by
     from evidence fact
     join replicas on replicas.replica_id = fact.data ->> 'replica_id'
     where fact.kind = 'replica.ended'
       and replicas.pid = $1`,
    [pid],
  );
  return rows[0];
};

/**
 * Allocates until this replica runs the operation, up to the step that waits for the gate. Usually
 * the replica that receives the request runs it.
 */
async function allocateAt(server: SpawnedServer, pool: string): Promise<string> {
  for (let tries = 0; tries < 12; tries++) {
    const id = await allocate(server.client, pool);
    await until('the machine to be launched', async () => {
      const { progress } = await readAllocation(server.client, id);
      return progress?.phase === 'register';
    });
    if ((await readExecutorPid(id)) === server.pid) return id;
    idsOfOtherServer.push(id);
  }
  throw new Error('this replica never ran an operation');
}

it('answers /readyz with 503 while it serves, and another replica continues its work at once', async () => {
  const gate = join(gates, 'open');
  await declarePool(stoppingServer.client, 'slow', { spec: { setup: `while [ ! -e ${gate} ]; do sleep 0.2; done` } });
  const slowId = await allocateAt(stoppingServer, 'slow');

  process.kill(stoppingServer.pid, 'SIGTERM');
  const startedMs = systemClock.monotonicMs();
  const readiness = await until('the replica to be unready', async () => {
    const reply = await fetch(`${stoppingServer.url}/readyz`);
    return reply.status === 503 ? reply.json() : undefined;
  });
  expect(readiness).toMatchObject({
    status: 'not ready',
    checks: { database: { ok: true }, shutdown: { ok: false, state: 'stopping' } },
  });
  await until(
    'the other replica to take the operation over',
    async () => (await readExecutorPid(slowId)) === remainingServer.pid,
  );
  // The stopping replica announced its end, so the other one did not wait until the lease expired.
  expect(await endOf(stoppingServer.pid)).toEqual({ taken_over_by: null });

  // The stopping replica still accepts requests, and the other replica runs their operations.
  const lateId = await allocate(stoppingServer.client, 'local');
  await waitForStatus(remainingServer.client, lateId, 'active');
  expect(await readExecutorPid(lateId)).toBe(remainingServer.pid);
  // A release through the stopping replica works too.
  await release(stoppingServer.client, lateId);
  await waitForStatus(remainingServer.client, lateId, 'released');
  expect((await fetch(`${stoppingServer.url}/readyz`)).status).toBe(503);

  expect(await stoppingServer.ended).toBe(0);
  expect(systemClock.monotonicMs() - startedMs).toBeGreaterThanOrEqual(1000 * drainSeconds);
  await writeFile(gate, '');
  await waitForStatus(remainingServer.client, slowId, 'active');
  expect(await db.countEvidence(slowId, 'operation.taken_over')).toBe(1);
  for (const id of [slowId, ...idsOfOtherServer]) {
    await waitForStatus(remainingServer.client, id, 'active');
    await release(remainingServer.client, id);
    await waitForStatus(remainingServer.client, id, 'released');
  }
  await expectNothingLeft(db, stoppingServer.nodes_dir, 1);
}, 240_000);
