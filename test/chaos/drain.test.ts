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

let leaving: SpawnedServer;
let staying: SpawnedServer;
let db: DatabaseConnection;
let gates: string;
/** Allocations whose operation the other replica ran. */
let others: string[];

beforeEach(async () => {
  others = [];
  gates = await mkdtemp(join(tmpdir(), 'slipway-gates-'));
  leaving = await spawnServer({ args: ['--drain-seconds', String(drainSeconds)] });
  db = await openDatabaseConnection(leaving.database_url);
  // The machines of a pool get the addresses of all replicas that run at their launch.
  staying = await spawnServer({ beside: leaving });
});
afterEach(async () => {
  await db.close();
  await leaving.kill();
  await staying.stop();
  await leaving.stop();
  await rm(gates, { recursive: true, force: true });
});

const executorOf = async (allocation_id: string) => {
  const rows = await db.query<{ pid: number }>(
    `select replicas.pid
     from operations
     join replicas using (replica_id)
     where operations.allocation_id = $1`,
    [allocation_id],
  );
  return rows[0]?.pid;
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
    if ((await executorOf(id)) === server.pid) return id;
    others.push(id);
  }
  throw new Error('this replica never ran an operation');
}

it('answers /readyz with 503 while it serves, and another replica continues its work at once', async () => {
  const gate = join(gates, 'open');
  await declarePool(leaving.client, 'slow', { spec: { setup: `while [ ! -e ${gate} ]; do sleep 0.2; done` } });
  const slow = await allocateAt(leaving, 'slow');

  process.kill(leaving.pid, 'SIGTERM');
  const startedMs = systemClock.monotonicMs();
  const readiness = await until('the replica to be unready', async () => {
    const reply = await fetch(`${leaving.url}/readyz`);
    return reply.status === 503 ? reply.json() : undefined;
  });
  expect(readiness).toMatchObject({
    status: 'not ready',
    checks: { database: { ok: true }, shutdown: { ok: false, state: 'stopping' } },
  });
  await until('the other replica to take the operation over', async () => (await executorOf(slow)) === staying.pid);
  const takenOverMs = systemClock.monotonicMs() - startedMs;

  // The leaving replica still accepts connections, and a change through it starts elsewhere.
  const late = await allocate(leaving.client, 'local');
  await waitForStatus(staying.client, late, 'active');
  expect(await executorOf(late)).toBe(staying.pid);
  // A cancel works too, although the run is elsewhere.
  await release(leaving.client, late);
  await waitForStatus(staying.client, late, 'released');
  expect((await fetch(`${leaving.url}/readyz`)).status).toBe(503);

  expect(await leaving.ended).toBe(0);
  const endedMs = systemClock.monotonicMs() - startedMs;
  console.log(`taken over after ${takenOverMs.toFixed(0)} ms, ended after ${endedMs.toFixed(0)} ms`);
  expect(endedMs).toBeGreaterThanOrEqual(1000 * drainSeconds);
  expect(takenOverMs).toBeLessThan(endedMs);
  await writeFile(gate, '');
  await waitForStatus(staying.client, slow, 'active');
  expect(await db.countEvidence(slow, 'operation.taken_over')).toBe(1);
  for (const id of [slow, ...others]) {
    await waitForStatus(staying.client, id, 'active');
    await release(staying.client, id);
    await waitForStatus(staying.client, id, 'released');
  }
  await expectNothingLeft(db, leaving.nodes_dir, 1);
}, 240_000);
