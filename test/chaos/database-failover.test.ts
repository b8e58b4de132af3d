/**
 * The primary database is killed and its synchronous standby promoted, under a server whose URL
 * lists both. The server, its operations and its engine continue on the new primary.
 */
import { expect, test } from 'vitest';
import { allocate, declarePool, release, waitForStatus, waitForStatuses } from '../support/allocations.ts';
import { postgresPair } from '../support/postgres-pair.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

/** The documented limit after the promotion. */
const promisedSeconds = 10;
const machines = 3;

async function scrape({ url, token }: SpawnedServer): Promise<string> {
  const reply = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  expect(reply.status).toBe(200);
  return reply.text();
}

test('operations under way continue on the promoted standby, and nothing acknowledged is lost', async () => {
  const { primary, standby, url } = await postgresPair();
  await primary.query(`alter system set synchronous_standby_names = 'standby'`);
  await primary.query('select pg_reload_conf()');
  const server = await spawnServer({ database_url: url });
  try {
    const { client } = server;
    await declarePool(client, 'pool');
    const firstId = await allocate(client, 'pool');
    await waitForStatus(client, firstId, 'active');
    const underWay = await Promise.all(Array.from({ length: machines }, () => allocate(client, 'pool')));
    expect(await scrape(server)).toContain('slipway_database_state{state="ok"} 1');
    await primary.kill();
    const outageMetrics = await scrape(server);
    expect(outageMetrics).toContain('slipway_database_state{state="unavailable"} 1');
    expect(outageMetrics).toContain('slipway_beats_total');
    expect(outageMetrics, 'no old values').not.toContain('slipway_nodes{');
    await standby.promote();
    const promotedMs = performance.now();
    await until('the server to be ready', async () => (await fetch(`${server.url}/readyz`)).ok);
    const readySeconds = (performance.now() - promotedMs) / 1000;
    await waitForStatuses(client, underWay, 'active');
    const activeSeconds = (performance.now() - promotedMs) / 1000;
    process.stdout.write(
      `ready ${readySeconds.toFixed(1)} s and operations done ${activeSeconds.toFixed(1)} s after the promotion (promised ${promisedSeconds} s)\n`,
    );
    expect(activeSeconds).toBeLessThanOrEqual(promisedSeconds);
    await waitForStatus(client, firstId, 'active');
    await release(client, firstId);
    await waitForStatus(client, firstId, 'released');
    const { allocations } = await client.call('overview-get', {});
    expect(allocations).toMatchObject({ active: machines, released: 1 });
    const verdicts = await standby.query(`select summary from evidence where kind in ('node.offline', 'node.failed')`);
    expect(verdicts, 'a false verdict').toEqual([]);
  } finally {
    await server.kill();
    await server.stop();
  }
});
