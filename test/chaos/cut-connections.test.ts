/**
 * The database drops connections while machines are launched and released. The server keeps
 * running, every allocation is released, and every machine is retired.
 */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

let server: SpawnedServer;
let hasExited = false;
let db: Client;
beforeAll(async () => {
  server = await spawnServer();
  server.ended.then(() => {
    hasExited = true;
  });
  db = new Client({ connectionString: server.database_url, application_name: 'test' });
  await db.connect();
});
afterAll(async () => {
  await db.end();
  await server.stop();
});

const machineCount = 6;
const cutCount = 40;

/** Cuts all connections but the test's own. Returns their number. */
async function cutConnections(): Promise<number> {
  const { rowCount } = await db.query(
    `select pg_terminate_backend(pid)
     from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  );
  return rowCount ?? 0;
}

/** Long enough for a busy machine, where few calls succeed between two cuts. */
const retryLimit = { seconds: 180 };

/** Retries a call that a cut interrupted, as a client would. Fails if the server has exited. */
const retryCall = <T>(description: string, call: () => Promise<T>) =>
  until(
    description,
    async () => {
      if (hasExited) throw new Error(`the server exited: ${server.output().slice(-4000)}`);
      try {
        return { reply: await call() };
      } catch (error) {
        if (error instanceof Error) return undefined;
        throw error;
      }
    },
    retryLimit,
  );

it('releases every allocation and retires every machine although connections are cut', {
  timeout: 600_000,
}, async () => {
  const createReplies = await Promise.all(
    Array.from({ length: machineCount }, (_, index) =>
      retryCall('an allocation to be accepted', () =>
        server.client.call('allocation-create', { body: { pool: 'local' }, idempotency_key: `machine-${index}` }),
      ),
    ),
  );
  const ids = createReplies.map(({ reply }) => reply.allocation.allocation_id);
  const cutting = (async () => {
    let connections = 0;
    for (let cut = 0; cut < cutCount; cut++) {
      connections += await cutConnections();
      await pause(systemClock, 100);
    }
    return connections;
  })();
  for (const id of ids)
    await retryCall('a release to be accepted', () => server.client.call('allocation-release', { params: { id } }));
  expect(await cutting).toBeGreaterThan(cutCount);
  for (const id of ids) {
    await until(
      `allocation ${id} to be released`,
      async () => (await server.client.call('allocation-get', { params: { id } })).status === 'released',
      { seconds: 120, every_ms: 250 },
    );
  }
  // An operation ends a moment after its allocation is released.
  await until('all operations to end and all nodes to be retired', async () => {
    const unfinishedOperations = await db.query(
      `select 1 from operations where finished_at is null
       union all
       select 1 from nodes where status <> 'retired'`,
    );
    return unfinishedOperations.rows.length === 0;
  });
});
