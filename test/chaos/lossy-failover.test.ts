/**
 * An asynchronous standby lags, and the primary dies: acknowledged commits are lost. The server
 * notices, reads everything again and keeps serving without a restart.
 */
import { expect, onTestFinished, test } from 'vitest';
import type { IngestWatch } from '../../src/sweeps/runner/ingest.ts';
import { type EventReader, openEvents } from '../api/support/event-reader.ts';
import { replicatedPostgres } from '../support/replicated-postgres.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const failovers = 10;

/** Retries while the server reaches no database. */
const declare = (server: TestServer, pool: string) =>
  until(`the pool ${pool} to be declared`, () =>
    server.client.call('pool-put', { params: { pool }, body: { driver: 'external' } }).catch(() => undefined),
  );

const poolNames = async (server: TestServer): Promise<string[]> =>
  (await server.client.call('pool-list', {})).items.map(({ name }) => name);

const follow = (server: TestServer, cursor?: string) =>
  until('a stream', () => openEvents(server.url, server.token, '?topics=evidence', cursor).catch(() => undefined));

const waitForPool = (reader: EventReader, pool: string) =>
  reader.waitFor(`the fact about ${pool}`, ({ data }) => JSON.stringify(data).includes(pool));

test(`keeps serving after ${failovers} failovers that lose commits`, { timeout: 600_000 }, async () => {
  const postgres = await replicatedPostgres();
  onTestFinished(() => postgres.stop());
  let ingest: IngestWatch | undefined;
  const server = await inProcessServer({
    database_url: postgres.url,
    composition: {
      sweeps(registry, services) {
        ({ ingest } = services);
        return registry;
      },
    },
  });
  onTestFinished(() => server.stop());
  let reader = await follow(server);
  for (let round = 0; round < failovers; round++) {
    await postgres.addStandby();
    await declare(server, `kept-${round}`);
    await waitForPool(reader, `kept-${round}`);
    await postgres.catchUp();
    await postgres.cutOff();
    await declare(server, `lost-${round}`);
    await waitForPool(reader, `lost-${round}`);
    const lostCursor = reader.lastId();

    await postgres.failOver();
    const formerReader = reader;
    await until('the stream to end', formerReader.ended);
    reader = await follow(server, lostCursor);
    await reader.waitFor('the reset', ({ name }) => name === 'reset');
    await declare(server, `after-${round}`);
    await waitForPool(reader, `after-${round}`);
    const pools = await poolNames(server);
    expect(pools).toContain(`kept-${round}`);
    expect(pools).not.toContain(`lost-${round}`);
    expect(ingest?.isSteady(), 'negative verdicts wait').toBe(false);
    await reader.waitFor('the record of the loss', ({ data }) => data.kind === 'evidence.lost');
  }
  await reader.close();

  const all = await follow(server, '0-0');
  onTestFinished(() => all.close());
  await waitForPool(all, `after-${failovers - 1}`);
  expect(all.events.filter(({ data }) => data.kind === 'evidence.lost').length).toBe(failovers);
  const order = all.events
    .filter(({ data }) => data.kind === 'pool.declared')
    .map(({ data }) => /(kept|after|lost)-\d+/.exec(JSON.stringify(data))?.[0])
    .filter((pool) => pool !== undefined);
  expect(order).toEqual(Array.from({ length: failovers }, (_, round) => [`kept-${round}`, `after-${round}`]).flat());
});
