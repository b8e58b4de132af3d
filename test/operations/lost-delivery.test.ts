/**
 * A task that is lost on the way to the agent is delivered again by the next poll, and runs once.
 */
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

/**
 * Creates an active allocation on a machine whose clean-up records each run, and whether two runs
 * overlap.
 */
async function allocateActive(pool: string): Promise<string> {
  const [busy, overlap, runs] = ['busy', 'overlap', 'runs'].map((name) => join(dir, `${pool}-${name}`));
  const clean = `mkdir ${busy} || touch ${overlap}; echo x >> ${runs}; sleep 1; rmdir ${busy}`;
  await declarePool(server.client, pool, {
    heartbeat: { interval_seconds: 1, stale_after_seconds: 60 },
    spec: { command: ['sleep', '600'], clean },
  });
  const id = await allocate(server.client, pool);
  await waitForStatus(server.client, id, 'active');
  return id;
}

async function readTaskKinds(allocation_id: string): Promise<string[]> {
  const { items } = await server.client.call('timeline-get', { query: { allocation_id, limit: 500 } });
  return items.map(({ kind }) => kind).filter((kind) => kind.startsWith('task.'));
}

async function expectOneRun(pool: string): Promise<void> {
  expect(existsSync(join(dir, `${pool}-overlap`)), 'two clean-ups overlapped').toBe(false);
  expect(await readFile(join(dir, `${pool}-runs`), 'utf8')).toBe('x\n');
}

test('the next poll delivers a task whose reply was lost', async () => {
  const id = await allocateActive('lost-replies');
  proxy.loseReplies(3);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  expect(proxy.lostReplies()).toBe(3);
  await expectOneRun('lost-replies');
  const kinds = await readTaskKinds(id);
  expect(kinds).toContain('task.redelivered');
  expect(kinds, 'the task was delivered before its lease ended').not.toContain('task.requeued');
});

test('a live poll gets the task while the server still holds lost polls open', async () => {
  const id = await allocateActive('lost-polls');
  for (let lostPolls = 0; lostPolls < 3; )
    lostPolls += await until('an open poll', () => proxy.losePolls() || undefined);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  await expectOneRun('lost-polls');
  expect(await readTaskKinds(id), 'the task was delivered before its lease ended').not.toContain('task.requeued');
});
