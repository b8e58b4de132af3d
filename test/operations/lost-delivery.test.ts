/** A task whose delivery was lost on the way to the agent comes again at once, and runs once. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allocate, declarePool, release, waitForStatus } from '../support/allocations.ts';
import { freePort } from '../support/free-port.ts';
import { spawnServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type LossyLine, lossyLine } from './support/lossy-proxy.ts';

let server: TestServer;
let line: LossyLine;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'slipway-lost-delivery-'));
  const port = await freePort();
  line = await lossyLine(`http://127.0.0.1:${port}`);
  server = await spawnServer({ port, args: ['--public-url', line.url] });
});
afterAll(async () => {
  await server?.stop();
  await line?.stop();
  await rm(dir, { recursive: true, force: true });
});

/** An active allocation of a machine whose clean-up notes each run, and whether another one was under way. */
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

test('the answer was lost: the next poll gets the task', async () => {
  const id = await activeIn('answers');
  line.loseAnswers(3);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  expect(line.lostAnswers()).toBe(3);
  await expectOneRun('answers');
  const kinds = await taskKindsOf(id);
  expect(kinds).toContain('task.redelivered');
  expect(kinds, 'no lease had to end').not.toContain('task.requeued');
});

test('the server holds polls that the agent gave up: the one that the agent waits for gets the task', async () => {
  const id = await activeIn('polls');
  for (let lost = 0; lost < 3; ) lost += await until('an open poll', () => line.losePolls() || undefined);
  await release(server.client, id);
  await waitForStatus(server.client, id, 'released');
  await expectOneRun('polls');
  expect(await taskKindsOf(id), 'no lease had to end').not.toContain('task.requeued');
});
