/** A task that was lost on the way to the agent is delivered again at once, and runs once. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allocate, declarePool, release, waitForStatus } from '../support/allocations.ts';
import { freePort } from '../support/free-port.ts';
import { spawnServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type LossyProxy, lossyProxy } from './support/lossy-proxy.ts';

let server: TestServer;
let proxy: LossyProxy;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-lost-delivery-'));
  const port = await freePort();
  proxy = await lossyProxy(`http://127.0.0.1:${port}`);
  server = await spawnServer({ port, args: ['--public-url', proxy.url] });
});
afterAll(async () => {
  await server?.stop();
  await proxy?.stop();
  await rm(dir, { recursive: true, force: true });
});

/** An active allocation on a machine whose clean-up records each run, and concurrent runs. */
async function activeIn(pool: string): Promise<string> {
  const [busy, twice, runs] = ['busy', 'twice', 'runs'].map((name) => join(dir, `${pool}-${name}`));
  const clean = `mkdir ${busy} || touch ${twice}; echo x >> ${runs}; sleep 1; rmdir ${busy}`;
  await declarePool(server.client, pool, {
    heartbeat: { interval_seconds: 1, stale_after_seconds: 60 },
    spec: { command: ['sleep', '600'], clean },
  });
  const id = await allocate(server.client, pool);
  await waitForStatus(server.client, id, 'active');
  return id;
}

async function taskKindsOf(allocation_id: string): Promise<string[]> {
  const { items } = await server.client.call('timeline-get', { query: { allocation_id, limit: 500 } });
  return items.map(({ kind }) => kind).filter((kind) => kind.startsWith('task.'));
}

async function expectOneRun(pool: string): Promise<void> {
  expect(existsSync(join(dir, `${pool}-twice`)), 'two runs at once').toBe(false);
  expect(await readFile(join(dir, `${pool}-runs`), 'utf8')).toBe('x\n');
}

test('the next poll gets a task whose reply was lost', async () => {
  const id = await activeIn('answers');
  proxy.loseReplies(3);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  expect(proxy.lostReplies()).toBe(3);
  await expectOneRun('answers');
  const kinds = await taskKindsOf(id);
  expect(kinds).toContain('task.redelivered');
  expect(kinds, 'no lease had to end').not.toContain('task.requeued');
});

test('the live poll gets the task while the server still holds lost ones', async () => {
  const id = await activeIn('polls');
  for (let lost = 0; lost < 3; ) lost += await until('an open poll', () => proxy.losePolls() || undefined);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  await expectOneRun('polls');
  expect(await taskKindsOf(id), 'no lease had to end').not.toContain('task.requeued');
});
