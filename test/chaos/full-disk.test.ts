/**
 * The disk of the database is full, or nearly full: the server refuses new work, accepts
 * heartbeats, gives no machine a verdict, reports the shortage, and recovers by itself.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { findRunningDatabase } from '../../src/store/pg/embedded/embedded.ts';
import { callRoute } from '../api/support/calls.ts';
import { startMachine } from '../api/support/machine.ts';
import { withClient } from '../support/database.ts';
import { postgresIn } from '../support/postgres-pair.ts';
import { spawnMain, spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

/** Mounts a small disk in memory. Returns undefined where this process may not mount. */
async function mountSmallDisk(megabytes: number): Promise<string | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-small-disk-'));
  const options = ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=711`, 'none', directory];
  const isMounted = await run('mount', options).then(
    () => true,
    () => false,
  );
  onTestFinished(async () => {
    if (isMounted) await run('umount', [directory]);
    await rm(directory, { recursive: true, force: true });
  });
  if (isMounted) return directory;
  process.stderr.write('not tested with a full disk: this process may not mount\n');
  expect(process.env.CI, 'CI must be able to mount').not.toBe('true');
  return undefined;
}

/** PostgreSQL stops if it cannot extend its log, so the tests give it an empty segment. */
const emptyLogSegment = (url: string) =>
  withClient(url, async (client) => {
    await client.query('select pg_switch_wal()');
    await client.query('checkpoint');
  });

interface ServerOnDisk {
  url: string;
  token: string;
  client: Client;
  output(): string;
}

interface DiskCase {
  fill(): Promise<void>;
  free(): Promise<void>;
  problem: { code: string; says: string };
  readiness: { status: number; state: string };
}

async function checkShortage({ url, token: bearer, client, output }: ServerOnDisk, disk: DiskCase): Promise<void> {
  const readReadiness = async () => {
    const reply = await fetch(`${url}/readyz`);
    const { checks } = (await reply.json()) as { checks: { database: { state: string; detail: string | null } } };
    return { status: reply.status, state: checks.database.state };
  };
  // A long stale time, because the machine sends few heartbeats and a busy host is slow.
  const heartbeat = { interval_seconds: 10, stale_after_seconds: 600 };
  await client.call('pool-put', { params: { pool: 'own' }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool: 'own' } });
  const machine = await startMachine(url, { join_token, name: 'one' });
  expect((await machine.beat('ready')).status).toBe(200);
  const readNode = () => client.call('node-get', { params: { id: machine.node_id } });
  const readLastSeen = async () => (await readNode()).last_seen_at ?? '';
  const before = await readLastSeen();
  const countLines = (text: string) => output().split(text).length - 1;
  // The pool does not exist, so a server that accepts work answers pool_not_found.
  const allocate = () => callRoute(url, 'allocation-create', { body: { pool: 'absent' } }, { bearer });
  const fact = { layer: 'api', kind: 'flood.fact', summary: 'a fact' };
  const postFact = () => callRoute(url, 'evidence-create', { body: { facts: [fact] } }, { bearer });
  const createNode = () => callRoute(url, 'node-create', { body: { pool: 'own', name: 'two' } }, { bearer });
  expect((await allocate()).body.code).toBe('pool_not_found');

  await disk.fill();
  const refusal = {
    status: 503,
    body: {
      code: 'resources_short',
      owner_layer: 'control_plane',
      detail: 'The server is short of disk space, so it starts nothing new. `slipway status` says what to do.',
      retry_after_seconds: expect.any(Number),
    },
  };
  await until('new work to be refused', async () => (await allocate()).body.code === 'resources_short');
  for (const start of [allocate, postFact, createNode]) expect(await start()).toMatchObject(refusal);
  expect((await machine.beat()).status).toBe(200);
  await until('the heartbeat to be stored', async () => (await readLastSeen()) > before);
  expect((await client.call('node-list', { query: {} })).items, 'lists need no disk').toHaveLength(1);
  const problem = await until('the problem to be reported', async () => {
    const { problems } = await client.call('server-status', {});
    return problems.find(({ code }) => code === disk.problem.code);
  });
  expect(problem).toMatchObject({ owner_layer: 'operator', says: expect.stringContaining(disk.problem.says) });
  expect(problem.says).toContain('new work is refused');
  expect(problem.remedy).toMatch(/enlarge/i);
  await until('its readiness', async () => isDeepStrictEqual(await readReadiness(), disk.readiness));

  await disk.free();
  await until('work to be accepted again', async () => (await allocate()).body.code === 'pool_not_found');
  expect((await createNode()).status).toBe(201);
  await until('the server to be ready', async () => (await readReadiness()).state === 'ok');
  await until('the problem to be over', async () => {
    const { problems } = await client.call('server-status', {});
    return !problems.some(({ code }) => code === disk.problem.code);
  });
  expect((await machine.beat()).status).toBe(200);
  expect((await readNode()).status).toBe('ready');
  const { items } = await client.call('node-timeline', { params: { id: machine.node_id }, query: {} });
  const verdicts: string[] = ['node.offline', 'node.failed'];
  expect(items.filter(({ kind }) => verdicts.includes(kind))).toEqual([]);
  await until('the end to be logged', () => countLines('"message":"the shortage of disk space is over"') === 1);
  expect(countLines('short of disk space for the database')).toBe(1);
}

test('a full disk: refuses new work, accepts heartbeats, is unready, and recovers when there is space', {
  timeout: 300_000,
}, async () => {
  const directory = await mountSmallDisk(300);
  if (directory === undefined) return;
  const database = await postgresIn(directory);
  const server = await spawnServer({ database_url: database.url });
  const filler = join(directory, 'filler');
  try {
    await checkShortage(server, {
      async fill() {
        await emptyLogSegment(database.url);
        await expect(run('dd', ['if=/dev/zero', `of=${filler}`, 'bs=1M'])).rejects.toThrow('No space left');
      },
      free: () => rm(filler),
      problem: { code: 'disk_full', says: 'the disk of the database is full' },
      readiness: { status: 503, state: 'disk_full' },
    });
  } finally {
    await server.stop();
  }
});

test('a nearly full disk of the embedded database: refuses new work, accepts heartbeats, and recovers', {
  timeout: 300_000,
}, async () => {
  const directory = await mountSmallDisk(400);
  if (directory === undefined) return;
  const data_dir = join(directory, 'data');
  const server = await spawnMain([
    '--port',
    '0',
    '--data-dir',
    data_dir,
    '--log-level',
    'info',
    '--drain-seconds',
    '0',
  ]);
  const token = (await readFile(join(data_dir, 'admin.token'), 'utf8')).trim();
  const client = createClient({ base_url: server.url, token, addresses: routes });
  const filler = join(directory, 'filler');
  try {
    await checkShortage(
      { url: server.url, token, client, output: server.output },
      {
        async fill() {
          await emptyLogSegment((await findRunningDatabase(data_dir)) ?? '');
          const { bavail, bsize, blocks } = await statfs(directory);
          const bytes = bavail * bsize - 0.015 * blocks * bsize;
          await run('fallocate', ['-l', String(Math.floor(bytes)), filler]);
        },
        free: () => rm(filler),
        problem: { code: 'disk_low', says: 'are free' },
        readiness: { status: 200, state: 'ok' },
      },
    );
  } finally {
    await server.end('SIGTERM');
  }
});
