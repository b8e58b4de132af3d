/**
 * The database drops connections while machines come and go. The server keeps running, and every
 * machine and allocation ends correctly.
 */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

let server: SpawnedServer;
let ended = false;
let outside: Client;
beforeAll(async () => {
  server = await spawnServer();
  server.ended.then(() => {
    ended = true;
  });
  outside = new Client({ connectionString: server.database_url, application_name: 'outside' });
  await outside.connect();
});
afterAll(async () => {
  await outside.end();
  await server.stop();
});

const machines = 6;
const rounds = 40;

async function cutEverything(): Promise<number> {
  const { rowCount } = await outside.query(
    `select pg_terminate_backend(pid)
     from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  );
  return rowCount ?? 0;
}

/** Covers all cuts on a busy machine, where few calls succeed between two of them. */
const patience = { seconds: 180 };

/** Repeats a call that a cut broke off, as a client would; a server that exited fails the test. */
const retry = <T>(what: string, call: () => Promise<T>) =>
  until(
    what,
    async () => {
      if (ended) throw new Error(`the server exited: ${server.output().slice(-4000)}`);
      try {
        return { answer: await call() };
      } catch (error) {
        if (error instanceof Error) return undefined;
        throw error;
      }
    },
    patience,
  );

it('loses no machine and no allocation to cut connections', { timeout: 600_000 }, async () => {
  const made = await Promise.all(
    Array.from({ length: machines }, (_, each) =>
      retry('an allocation to be taken', () =>
        server.client.call('allocation-create', { body: { pool: 'local' }, idempotency_key: `machine-${each}` }),
      ),
    ),
  );
  const ids = made.map(({ answer }) => answer.allocation.allocation_id);
  const cutting = (async () => {
    let cut = 0;
    for (let round = 0; round < rounds; round++) {
      cut += await cutEverything();
      await pause(systemClock, 100);
    }
    return cut;
  })();
  for (const id of ids)
    await retry('a release to be taken', () => server.client.call('allocation-release', { params: { id } }));
  expect(await cutting).toBeGreaterThan(rounds);
  for (const id of ids) {
    await until(
      `allocation ${id} to be released`,
      async () => (await server.client.call('allocation-get', { params: { id } })).status === 'released',
      { seconds: 120, every_ms: 250 },
    );
  }
  // An allocation is released a moment before its operation records its own end.
  await until('all work to end', async () => {
    const left = await outside.query(
      `select 1 from operations where finished_at is null union all select 1 from nodes where status <> 'retired'`,
    );
    return left.rows.length === 0;
  });
});
