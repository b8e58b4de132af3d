/**
 * Other programs take all connections of the database. A starting server names the cause and the
 * remedy. A running one refuses new work, accepts heartbeats, reports the shortage, and recovers.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { callRoute } from '../api/support/calls.ts';
import { startMachine } from '../api/support/machine.ts';
import { type PairedServer, postgresIn } from '../support/postgres-pair.ts';
import { spawnProgram, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const maxConnections = 40;

let database: PairedServer;
/**
 * Connects as an ordinary role, as in production. It cannot use the connections that PostgreSQL
 * reserves for superusers.
 */
let url: string;
beforeEach(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-few-connections-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  database = await postgresIn(directory, { max_connections: String(maxConnections) });
  await database.query(`create role plain login password 'plain'`);
  await database.query('create database slipway owner plain');
  url = `postgres://plain:plain@${database.address}/slipway`;
});

/** Takes every connection that is left. `end` closes them. */
async function takeAll(): Promise<{ count: number; end: () => Promise<void> }> {
  const taken: Client[] = [];
  for (;;) {
    const client = new Client({ connectionString: url });
    client.on('error', () => {});
    try {
      await client.connect();
    } catch {
      break;
    }
    taken.push(client);
  }
  return {
    count: taken.length,
    end: async () => {
      await Promise.all(taken.map((client) => client.end()));
    },
  };
}

it('a starting server names the cause and the remedy, without a stack trace', async () => {
  const taken = await takeAll();
  onTestFinished(taken.end);
  const data_dir = await mkdtemp(join(tmpdir(), 'slipway-start-'));
  onTestFinished(() => rm(data_dir, { recursive: true, force: true }));
  const program = spawnProgram(['--port', '0', '--data-dir', data_dir, '--database-url', url]);
  expect(await program.ended).toBe(1);
  expect(program.output()).toContain('the database has no free connection');
  expect(program.output()).toContain('Raise max_connections of the database, or stop other clients.');
  expect(program.output()).not.toMatch(/^ +at /m);
});

it('a running server refuses new work, accepts heartbeats, reports the shortage, and recovers', async () => {
  const server = await spawnServer({ database_url: url });
  onTestFinished(() => server.stop());
  const { client } = server;
  // A long stale time, because the machine sends few heartbeats and a busy host is slow.
  const heartbeat = { interval_seconds: 10, stale_after_seconds: 600 };
  await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
  const machine = await startMachine(server.url, { join_token, name: 'one' });
  expect((await machine.beat('ready')).status).toBe(200);
  // During a shortage, lists are refused, but a single node can be read.
  const readLastSeen = async () =>
    (await client.call('node-get', { params: { id: machine.node_id } })).last_seen_at ?? '';
  // The pool does not exist, so a server that accepts work answers pool_not_found.
  const allocate = () =>
    callRoute(server.url, 'allocation-create', { body: { pool: 'absent' } }, { bearer: server.token });

  // Terminate the server's idle connections and take the freed ones, until the server has few.
  const taken: { end: () => Promise<void> }[] = [];
  const freeAll = async () => {
    for (const each of taken.splice(0)) await each.end();
  };
  onTestFinished(freeAll);
  await until('the server to have few connections', async () => {
    const ofServer = `from pg_stat_activity where application_name = 'slipway'`;
    const [row] = await database.query<{ open: number }>(`select count(*)::int as open ${ofServer}`);
    const hasFew = row !== undefined && row.open <= 4;
    if (!hasFew) await database.query(`select pg_terminate_backend(pid) ${ofServer} and state = 'idle'`);
    // A terminated connection still counts for a moment.
    const newlyTaken = await takeAll();
    taken.push(newlyTaken);
    return hasFew && newlyTaken.count === 0;
  });

  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  // The server notices the shortage when it tries to open more connections for these reads.
  const load = Array.from({ length: 20 }, async () => {
    while (!isOver) await callRoute(server.url, 'overview-get', {}, { bearer: server.token }).catch(() => undefined);
  });
  await until('new work to be refused', async () => {
    const { status, body } = await allocate();
    return status === 503 && body.code === 'resources_short';
  });
  const before = await readLastSeen();
  expect((await machine.beat()).status).toBe(200);
  await until('the heartbeat to be stored', async () => (await readLastSeen()) > before);
  const problem = await until('the problem to be reported', async () => {
    const { problems } = await client.call('server-status', {});
    return problems.find(({ code }) => code === 'connections_low');
  });
  expect(problem).toMatchObject({ owner_layer: 'operator', remedy: expect.stringContaining('max_connections') });
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);

  await freeAll();
  isOver = true;
  await Promise.all(load);
  await until('work to be accepted again', async () => (await allocate()).body.code === 'pool_not_found');
  await until('the problem to be over', async () => {
    const { problems } = await client.call('server-status', {});
    return !problems.some(({ code }) => code === 'connections_low');
  });
  expect((await client.call('node-list', { query: {} })).items).toMatchObject([{ status: 'ready' }]);
});
