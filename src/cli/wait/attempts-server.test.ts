/** Checks `allocate --wait` with several attempts against a real server. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { declarePool, release, waitForStatuses } from '../../../test/support/allocations.ts';
import { inProcessServer, type TestServer } from '../../../test/support/server.ts';
import { startCli } from '../testing/run-cli.ts';

let server: TestServer;
let files: string;
beforeAll(async () => {
  files = await mkdtemp(join(tmpdir(), 'slipway-attempts-'));
  server = await inProcessServer();
});
afterAll(async () => {
  if (server) {
    const { items } = await server.client.call('allocation-list', {});
    const ids = items.filter(({ status }) => status !== 'released').map(({ allocation_id }) => allocation_id);
    await Promise.all(ids.map((id) => release(server.client, id)));
    await waitForStatuses(server.client, ids, 'released');
    await server.stop();
  }
  await rm(files, { recursive: true, force: true });
});

const allocate = (pool: string) =>
  startCli(['allocate', '--pool', pool, '--wait'], { server: server.url, env: { SLIPWAY_TOKEN: server.token } });

test('succeeds when the second machine comes up', async () => {
  const mark = join(files, 'tried');
  const setup = `test -e ${mark} || { touch ${mark}; exit 5; }`;
  await declarePool(server.client, 'stubborn', { attempts: 3, spec: { setup } });
  const { code, stdout } = await allocate('stubborn').finished;
  expect(stdout).toContain('attempt 2 of 3 follows');
  expect(stdout).toMatch(/✔ alloc_\w+ is active/);
  expect(code).toBe(0);
});

test('fails only after the last attempt', async () => {
  await declarePool(server.client, 'hopeless', { attempts: 2, spec: { setup: 'exit 6' } });
  const { code, stdout } = await allocate('hopeless').finished;
  expect(code).toBe(1);
  expect(stdout).toContain('attempt 2 of 2 follows');
  const id = /alloc_\w+/.exec(stdout)?.[0] ?? '';
  const { progress, workflow_id } = await server.client.call('allocation-get', { params: { id } });
  expect(progress).toMatchObject({ workflow_id, status: 'failed' });
  const { items } = await server.client.call('timeline-get', {
    query: { allocation_id: id, kind: 'allocation.retrying' },
  });
  expect(items).toHaveLength(1);
});
