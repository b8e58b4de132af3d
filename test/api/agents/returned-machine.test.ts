/**
 * A real agent rotates its credential after a backup, so the restored database lacks the new one.
 * The agent returns with a signature of its key, while its command runs on. The restoration then
 * finds that the machine has not changed hands.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AgentBench, agentBench } from '../../../src/agent/testing/agent-process.ts';
import type { Client } from '../../../src/contract/client.ts';
import { allocate, waitForStatus } from '../../support/allocations.ts';
import { runBackupProgram } from '../../support/backup-program.ts';
import { emptyDatabase, type TestDatabase, testDatabase, withClient } from '../../support/database.ts';
import { freePort } from '../../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let directory: string;
let databases: TestDatabase[];
let servers: SpawnedServer[];
let bench: AgentBench;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-returned-machine-'));
  databases = [await testDatabase(), await emptyDatabase()];
  servers = [];
  bench = agentBench();
});
afterEach(async () => {
  await bench.clear();
  for (const server of servers) await server.stop();
  for (const database of databases) await database.drop();
  await rm(directory, { recursive: true, force: true });
});

const countFacts = (url: string, kind: string) =>
  withClient(url, async (client) => {
    const { rows } = await client.query('select count(*)::int as facts from evidence where kind = $1', [kind]);
    return rows[0]?.facts as number;
  });

async function isUnconfirmed(client: Client, node_id: string): Promise<boolean> {
  const { items } = await client.call('restoration-differences', { query: { limit: 500 } });
  return items.some((difference) => difference.kind === 'unconfirmed' && difference.node_id === node_id);
}

it('comes back with its key after a restore, and its command runs on', async () => {
  const [original, target] = databases.map(({ url }) => url) as [string, string];
  const port = await freePort();
  const start = async (database_url: string, ...args: string[]) => {
    const server = await spawnServer({ database_url, port, args });
    servers.push(server);
    return server;
  };
  const former = await start(original, '--credential-seconds', '6');
  const heartbeat = { interval_seconds: 1, stale_after_seconds: 3600 };
  await former.client.call('pool-put', { params: { pool: 'lab' }, body: { driver: 'external', heartbeat } });
  const { enrollment_token, node } = await former.client.call('node-create', { body: { pool: 'lab', name: 'real' } });
  const { node_id, node_instance_id } = node;
  const agent = bench.start(bench.dir(), {
    server_url: former.url,
    enrollment_token,
    node_id,
    node_instance_id,
    command: ['/bin/sh', '-c', 'echo $$ >> pids; exec sleep 600'],
  });
  const allocation_id = await allocate(former.client, 'lab');
  await waitForStatus(former.client, allocation_id, 'active');

  const backup = join(directory, 'backup');
  const keys = ['--key-file', join(former.data_dir, 'keys.json')];
  const taken = await runBackupProgram('backup', '--database-url', original, ...keys, '--to', backup);
  expect(taken.code, taken.output).toBe(0);
  const rotations = await countFacts(original, 'credential.replaced');
  const hasRotated = async () => (await countFacts(original, 'credential.replaced')) > rotations;
  await until('a rotation after the backup', hasRotated, { seconds: 60 });
  await former.kill();

  const restored = await runBackupProgram('restore', backup, '--database-url', target, ...keys);
  expect(restored.code, restored.output).toBe(0);
  const latter = await start(target, ...keys);
  expect(await isUnconfirmed(latter.client, node_id)).toBe(true);
  const isConfirmed = async () => !(await isUnconfirmed(latter.client, node_id));
  await until('the restoration to confirm the machine', isConfirmed, { seconds: 180 });

  expect(await countFacts(target, 'credential.reissued')).toBe(1);
  expect((await latter.client.call('restoration-get', {})).observing).toBe(true);
  const pids = readFileSync(join(agent.dir, 'pids'), 'utf8').trim().split('\n');
  expect(pids, 'starts of the command').toHaveLength(1);
  expect(() => process.kill(Number(pids[0]), 0), 'the command runs').not.toThrow();
  const { status, node_instance_id: current } = await latter.client.call('node-get', { params: { id: node_id } });
  expect({ status, current }).toEqual({ status: 'ready', current: node_instance_id });
}, 400_000);
