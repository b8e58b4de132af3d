/**
 * The clocks of the server's host and of the database jump by an hour, forwards and backwards. No
 * machine, allocation or replica gets a verdict because of that, and real silence is still noticed.
 */
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type SteppedClock, steppedClock } from '../../src/store/testing/stepped-clock.ts';
import { startMachine } from '../api/support/machine.ts';
import { sendBeats } from '../scenarios/support/fleet.ts';
import { declarePool } from '../support/allocations.ts';
import { type TestDatabase, testDatabase } from '../support/database.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const stepClock = fileURLToPath(new URL('./step-clock.mjs', import.meta.url));
const heartbeat = { interval_seconds: 2, stale_after_seconds: 8 };
/** No verdict may come within this time. Longer than the stale time and the pace of every rule. */
const watchSeconds = heartbeat.stale_after_seconds + 6;
const hour = 3600;

let database: TestDatabase;
let clock: SteppedClock;
const servers: SpawnedServer[] = [];
beforeEach(async () => {
  database = await testDatabase();
  clock = await steppedClock(database.url);
  for (let count = 0; count < 2; count++)
    servers.push(
      await spawnServer({
        database_url: database.url,
        node_args: ['--import', stepClock],
        ...(servers[0] && { beside: servers[0] }),
      }),
    );
});
afterEach(async () => {
  for (const server of servers.splice(0).reverse()) await server.stop();
  await clock.close();
  await database.drop();
});

/** Sends heartbeats for these credentials, to both servers in turn, until the result is called. */
function keepBeating(credentials: Set<string>): () => Promise<void> {
  let isOver = false;
  const loop = (async () => {
    for (let round = 0; !isOver; round++) {
      await sendBeats(servers[round % servers.length]?.url ?? '', [...credentials]);
      await pause(systemClock, heartbeat.interval_seconds * 500);
    }
  })();
  loop.catch(() => {});
  return async () => {
    isOver = true;
    await loop;
  };
}

const countJumps = ({ output }: SpawnedServer) => output().split('the clock of the database jumped').length - 1;

async function stepDatabase(seconds: number): Promise<void> {
  const before = servers.map(countJumps);
  await clock.step(seconds);
  await until('both servers to follow the clock', () =>
    servers.every((server, index) => countJumps(server) > (before[index] ?? 0)),
  );
}

async function stepHosts(signal: NodeJS.Signals, said: string): Promise<void> {
  const before = servers.map(({ output }) => output().length);
  for (const { pid } of servers) process.kill(pid, signal);
  await until('both clocks to be set', () =>
    servers.every(({ output }, index) => output().slice(before[index]).includes(said)),
  );
}

it('gives no verdict because a clock jumped, and still notices silence', async () => {
  const [server] = servers;
  if (!server) throw new Error('no server');
  const { client } = server;
  await declarePool(client, 'fleet', { driver: 'external', heartbeat, brake: { fraction: 1, min_nodes: 1_000_000 } });
  await declarePool(client, 'empty', { driver: 'external' });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'fleet' } });
  const [serving, starting] = [
    await startMachine(server.url, { join_token, name: 'serving' }),
    await startMachine(server.url, { join_token, name: 'starting' }),
  ];
  await serving.beat('ready');
  await client.call('allocation-create', { body: { pool: 'empty' } });
  const credentials = new Set([serving.credential, starting.credential]);
  const stopBeating = keepBeating(credentials);
  try {
    await until(
      'the machine to be ready',
      async () => (await client.call('node-get', { params: { id: serving.node_id } })).status === 'ready',
    );
    const readStatuses = async () => ({
      nodes: (await client.call('node-list', { query: {} })).items.map(({ name, status }) => `${name}: ${status}`),
      allocations: (await client.call('allocation-list', { query: {} })).items.map(({ status }) => status),
      replicas: (await client.call('overview-get', {})).replicas.map(({ replica_id, live }) => ({ replica_id, live })),
    });
    const before = await readStatuses();
    expect(before.allocations).toEqual(['requested']);
    const expectNoVerdict = async (step: string) => {
      const endMs = systemClock.monotonicMs() + 1000 * watchSeconds;
      while (systemClock.monotonicMs() < endMs) {
        const { replicas, ...statuses } = await readStatuses();
        expect(statuses, step).toEqual({ nodes: before.nodes, allocations: before.allocations });
        expect(replicas, step).toHaveLength(servers.length);
        await pause(systemClock, 200);
      }
      expect((await readStatuses()).replicas, step).toEqual(before.replicas);
    };

    await stepHosts('SIGUSR2', 'the clock of this host is 1 h ahead');
    await expectNoVerdict('the clock of the host went forwards');
    await stepHosts('SIGUSR1', 'the clock of this host is 0 h ahead');
    await expectNoVerdict('the clock of the host went back');
    await stepDatabase(-hour);
    await expectNoVerdict('the clock of the database went back');
    await stepDatabase(2 * hour);
    await expectNoVerdict('the clock of the database went forwards');
    const { problems } = await client.call('server-status', {});
    expect(problems.map(({ code }) => code)).toContain('clock_stepped');

    credentials.delete(serving.credential);
    await until(
      'the silent machine to be offline',
      async () => (await client.call('node-get', { params: { id: serving.node_id } })).status === 'offline',
    );
  } finally {
    await stopBeating();
  }
}, 300_000);
