/**
 * Tests that a server samples the size of its database, reports its growth, and warns before the
 * disk of an embedded database is full.
 */
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { inProcessServer, spawnMain } from '../../../test/support/server.ts';
import { until } from '../../../test/support/until.ts';
import { createClient } from '../../contract/client.ts';
import { routes } from '../../contract/routes.ts';
import { findRunningDatabase } from '../../store/pg/embedded/embedded.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-growth-'));
  // PostgreSQL runs as another user if the tests run as root.
  await chmod(directory, 0o755);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Two days of samples that grow by this many bytes a day, with ten machines. */
async function placeSamples(url: string, bytes_per_day: number): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await until('the first sample', async () => (await client.query('select from size_samples')).rowCount);
    await client.query('update size_samples set bytes = bytes + 2 * $1::float8, nodes = 10', [bytes_per_day]);
    await client.query(
      `insert into size_samples (sampled_at, bytes, nodes)
       select sampled_at - make_interval(hours => i), bytes - i / 24.0 * $1::float8, 10
       from size_samples, generate_series(1, 48) as i`,
      [bytes_per_day],
    );
  } finally {
    await client.end();
  }
}

test('shows the growth of an external database, but not when its disk is full', async () => {
  const server = await inProcessServer();
  try {
    await placeSamples(server.database_url, 100_000);
    const { growth } = await until('the growth', async () => {
      const status = await server.client.call('server-status', {});
      return status.growth ? status : undefined;
    });
    expect(growth).toEqual({
      bytes_per_day: expect.closeTo(100_000, -1),
      bytes_per_node_day: expect.closeTo(10_000, -1),
      full_in_days: null,
    });
  } finally {
    await server.stop();
  }
});

test('warns if the disk of an embedded database would be full within a week', async () => {
  const data_dir = join(directory, 'data');
  const server = await spawnMain(['--port', '0', '--data-dir', data_dir]);
  try {
    const token = (await readFile(join(data_dir, 'admin.token'), 'utf8')).trim();
    const client = createClient({ base_url: server.url, token, addresses: routes });
    const { disk } = await client.call('server-status', {});
    const bytes_per_day = (disk?.free_bytes ?? 0) / 3;
    await placeSamples((await findRunningDatabase(data_dir)) ?? '', bytes_per_day);
    const { growth, problems } = await until('the problem', async () => {
      const status = await client.call('server-status', {});
      return status.problems.some(({ code }) => code === 'disk_filling') ? status : undefined;
    });
    expect(growth?.full_in_days).toBeGreaterThan(0);
    expect(growth?.full_in_days).toBeLessThan(7);
    expect(problems.find(({ code }) => code === 'disk_filling')).toMatchObject({ owner_layer: 'operator' });
    expect(server.output()).toContain('problem of this server: The disk will be full soon');
  } finally {
    await server.end('SIGTERM');
  }
});
