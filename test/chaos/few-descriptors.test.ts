/**
 * The file descriptors of a server run out: it refuses new connections and new work, accepts the
 * heartbeats of connected machines, reports the shortage, and recovers by itself.
 */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startMachine } from '../api/support/machine.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

let server: SpawnedServer;
let held: Socket[];
beforeEach(async () => {
  held = [];
  server = await spawnServer({ open_files: 200, args: ['--database-connections', '12'] });
});
afterEach(async () => {
  for (const socket of held) socket.destroy();
  await server.stop();
});

const descriptors = async () => (await readdir(`/proc/${server.pid}/fd`)).map(Number);
const setLimit = (files: number) => run('prlimit', ['--pid', String(server.pid), `--nofile=${files}:200`]);
const countLines = (text: string) => server.output().split(text).length - 1;

/** Opens a connection and keeps it open. Resolves to whether the server answered on it. */
const hold = () =>
  new Promise<boolean>((resolve) => {
    const { hostname, port } = new URL(server.url);
    const socket = connect({ host: hostname, port: Number(port) });
    held.push(socket);
    socket.on('error', () => resolve(false));
    socket.on('close', () => resolve(false));
    socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    socket.once('data', () => resolve(true));
  });

it('leaves enough connections for machines and people if one client takes all that it gets', async () => {
  const { client } = server;
  await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
  const machine = await startMachine(server.url, { join_token, name: 'one' });
  for (let count = 0; count < 400; count++) await hold();
  expect((await machine.beat('ready')).status).toBe(200);
  expect((await client.call('node-list', { query: { status: 'ready' } })).items).toHaveLength(1);
  expect((await descriptors()).length).toBeLessThan(200);
  expect(countLines('too many connections; closing')).toBe(1);
});

/** Calls over one connection that stays open, as an agent does. */
function connectedCaller(bearer: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return (method: string, path: string, body?: object) =>
    new Promise<{ status: number; body: Record<string, unknown> }>((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${bearer}`,
        connection: 'keep-alive',
        ...(body && { 'content-type': 'application/json' }),
      };
      const call = request(`${server.url}${path}`, { agent, method, headers }, (reply) => {
        let text = '';
        reply.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        reply.on('end', () => resolve({ status: reply.statusCode ?? 0, body: JSON.parse(text || '{}') }));
      });
      call.on('error', reject);
      call.end(body && JSON.stringify(body));
    });
}

it('refuses new work without a free descriptor, accepts heartbeats, logs the shortage once, and recovers', async () => {
  const { client } = server;
  await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external' } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
  const { credential, node_id } = await startMachine(server.url, { join_token, name: 'one' });
  const machine = connectedCaller(credential);
  const person = connectedCaller(server.token);
  const beat = () => machine('POST', '/v1/agent/heartbeat', { status: 'ready' });
  const readLastSeen = async () => String((await person('GET', `/v1/nodes/${node_id}`)).body.last_seen_at);
  const problems = async () =>
    (await person('GET', '/v1/status')).body.problems as { code: string; owner_layer: string; says: string }[];
  const allocate = () => person('POST', '/v1/allocations', { pool: 'own' });
  expect((await beat()).status).toBe(200);
  const before = await readLastSeen();

  // A new descriptor gets the lowest free number, which must be below the limit. With the limit at
  // this number, the server can neither open a file nor accept a connection.
  const exhaust = async () => {
    const taken = new Set(await descriptors());
    let free = 0;
    while (taken.has(free)) free++;
    await setLimit(free);
  };
  await until('new work to be refused', async () => {
    await exhaust();
    const { status, body } = await allocate();
    return status === 503 && body.code === 'resources_short';
  });
  await until('a further connection to be refused', async () => {
    await exhaust();
    return !(await hold());
  });
  expect((await beat()).status).toBe(200);
  await until('the heartbeat to be stored', async () => (await readLastSeen()) > before);
  const problem = await until('the problem', async () => (await problems()).find(({ code }) => code === 'files_low'));
  expect(problem).toMatchObject({ owner_layer: 'operator', says: expect.stringContaining('file descriptors') });

  await setLimit(200);
  await until('the server to accept work again', async () => (await allocate()).status === 202);
  expect(await hold()).toBe(true);
  await until('the problem to be over', async () => !(await problems()).some(({ code }) => code === 'files_low'));
  expect(countLines('short of memory, file descriptors')).toBe(1);
  expect(countLines('"message":"the shortage is over"')).toBe(1);
  expect(countLines('problem of this server: Few file descriptors')).toBe(1);
});
