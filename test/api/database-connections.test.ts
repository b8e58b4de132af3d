/** A replica under load opens no more connections to the database than `--database-connections`. */
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { inProcessServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const limit = 12;
const callers = 60;

test('stays within --database-connections under load, and reports its connections', async () => {
  const server = await inProcessServer({ args: ['--database-connections', String(limit)] });
  onTestFinished(() => server.stop());
  const observer = new Client({ connectionString: server.database_url, application_name: 'observer' });
  await observer.connect();
  onTestFinished(() => observer.end());
  const countOpen = async (): Promise<number> => {
    const { rows } = await observer.query<{ open: number }>(
      `select count(*)::int as open
       from pg_stat_activity
       where datname = current_database()
         and application_name like 'slipway%'`,
    );
    return rows[0]?.open ?? 0;
  };
  let calls = 0;
  let isOver = false;
  const load = Array.from({ length: callers }, async () => {
    while (!isOver) {
      await server.client.call('overview-get', {});
      calls++;
    }
  });
  let maxOpen = 0;
  await until('the load to be served', async () => {
    maxOpen = Math.max(maxOpen, await countOpen());
    return calls > 10 * callers;
  });
  isOver = true;
  await Promise.all(load);
  expect(maxOpen, 'connections under load').toBeGreaterThan(limit / 2);
  expect(maxOpen).toBeLessThanOrEqual(limit);
  const reply = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } });
  const text = await reply.text();
  for (const of of ['slipway', 'slipway-engine', 'slipway tail'])
    expect(text).toContain(`slipway_database_connections{of="${of}",state="open"}`);
  expect(text).toMatch(/^slipway_http_request_seconds_count\{route="overview-get"\} \d+$/m);
});
