/**
 * `kill -9` of a server with an embedded database ends only Node. The next start adopts the
 * database that still runs.
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { findPostmaster, isProcessAlive } from '../../src/store/pg/embedded/postmaster.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../support/allocations.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedMain, spawnMain } from '../support/server.ts';
import { until } from '../support/until.ts';

let directory: string;
let server: SpawnedMain;
let args: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-embedded-'));
  // If the tests run as root, PostgreSQL runs as another user, who must be able to enter the
  // directory.
  await chmod(directory, 0o755);
  args = ['--port', String(await freePort()), '--data-dir', join(directory, 'data'), '--log-level', 'info'];
  server = await spawnMain(args);
});
afterEach(async () => {
  await server.end('SIGTERM');
  await rm(directory, { recursive: true, force: true });
});

const findPostmasterPid = () => findPostmaster(join(directory, 'data', 'postgres'))?.pid ?? 0;

it('adopts the running database at the next start and finishes the interrupted operation', async () => {
  const token = (await readFile(join(directory, 'data', 'admin.token'), 'utf8')).trim();
  const client = createClient({ base_url: server.url, token, addresses: routes });
  const gate = join(directory, 'gate');
  await declarePool(client, 'slow', { spec: { setup: `while [ ! -e ${gate} ]; do sleep 0.1; done` } });
  const id = await allocate(client, 'slow');
  await until('the machine to be launched', async () => {
    const { progress } = await readAllocation(client, id);
    return progress?.phase === 'register';
  });
  const postmaster = findPostmasterPid();
  expect(isProcessAlive(postmaster)).toBe(true);

  await server.end('SIGKILL');
  expect(isProcessAlive(postmaster)).toBe(true);
  await writeFile(gate, '');
  server = await spawnMain(args);
  expect(findPostmasterPid()).toBe(postmaster);
  const active = await waitForStatus(client, id, 'active');
  expect(active.node_id).toBeTruthy();
  await release(client, id);
  await waitForStatus(client, id, 'released');

  await server.end('SIGTERM');
  await until('the database to stop with the server', () => !isProcessAlive(postmaster));
}, 120_000);
