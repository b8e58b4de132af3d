/**
 * The heap of a server is nearly full: it refuses new work with 503 instead of dying, accepts
 * heartbeats, reports the shortage, and recovers by itself.
 */
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { callRoute } from '../api/support/calls.ts';
import { startMachine } from '../api/support/machine.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const megabyte = 1024 ** 2;
const heapMegabytes = 320;
const holdMemory = fileURLToPath(new URL('./hold-memory.mjs', import.meta.url));

let server: SpawnedServer;
beforeEach(async () => {
  server = await spawnServer({
    env: { HELD_BYTES: String(0.88 * heapMegabytes * megabyte) },
    node_args: [`--max-old-space-size=${heapMegabytes}`, '--import', holdMemory],
  });
});
afterEach(() => server.stop());

const takeOrRelease = () => process.kill(server.pid, 'SIGUSR2');

it('refuses new work, large requests and new streams with 503, accepts heartbeats, and recovers', async () => {
  const { client, token: bearer } = server;
  await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
  const machine = await startMachine(server.url, { join_token, name: 'one' });
  expect((await machine.beat('ready')).status).toBe(200);
  const readLastSeen = async () =>
    (await client.call('node-get', { params: { id: machine.node_id } })).last_seen_at ?? '';
  const before = await readLastSeen();
  const facts = Array.from({ length: 400 }, (_, at) => ({
    layer: 'api',
    kind: 'flood.fact',
    summary: `fact ${at}`,
    data: { words: Array.from({ length: 100 }, (_, word) => `word ${word}`) },
  }));
  const codesOf = async (calls: Promise<{ status: number; body: Record<string, unknown> }>[]) => [
    ...new Set((await Promise.all(calls)).map(({ status, body }) => `${status} ${body.code}`)),
  ];
  const repeat = <T>(make: () => Promise<T>) => Array.from({ length: 30 }, make);
  const allocate = () => callRoute(server.url, 'allocation-create', { body: { pool: 'own' } }, { bearer });

  takeOrRelease();
  await until('new work to be refused', async () => (await allocate()).body.code === 'resources_short');
  const refused = ['503 resources_short'];
  expect(await codesOf(repeat(allocate))).toEqual(refused);
  expect(await codesOf(repeat(() => callRoute(server.url, 'stream-open', {}, { bearer })))).toEqual(refused);
  expect(
    await codesOf(repeat(() => callRoute(server.url, 'evidence-create', { body: { facts } }, { bearer }))),
  ).toEqual(refused);
  expect((await machine.beat()).status).toBe(200);
  await until('the heartbeat to be stored', async () => (await readLastSeen()) > before);
  const problem = await until('the problem', async () => {
    const { problems } = await client.call('server-status', {});
    return problems.find(({ code }) => code === 'memory_low');
  });
  expect(problem).toMatchObject({ owner_layer: 'operator', says: expect.stringContaining('of the heap') });

  takeOrRelease();
  await until('the server to accept work again', async () => (await allocate()).status === 202);
  await until('the problem to be over', async () => (await client.call('server-status', {})).problems.length === 0);
  expect(server.output()).toContain('short of memory, file descriptors or database connections');
  expect(server.output()).toContain('"message":"the shortage is over"');
  const { status } = await client.call('node-get', { params: { id: machine.node_id } });
  expect(status).toBe('ready');
});
