/**
 * A backup while a real server allocates, releases and receives heartbeats: every change that was
 * acknowledged before the backup began is in the restored database, whose history is clean.
 */
import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { dbosSchema } from '../../src/engine/dbos-schema.ts';
import { readDatabase } from '../../src/store/backup/read-database.ts';
import { findRunningDatabase } from '../../src/store/pg/embedded/embedded.ts';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../support/allocations.ts';
import { runBackupProgram } from '../support/backup-program.ts';
import { type SpawnedMain, spawnMain } from '../support/server.ts';
import { killProcessesIn } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';

const writers = 3;
const cli = join(import.meta.dirname, '../../src/cli/main.ts');

let directory: string;
let server: SpawnedMain;
const pathOf = (name: string) => join(directory, name);

const start = (data_dir: string, ...args: string[]) =>
  spawnMain(['--port', '0', '--data-dir', pathOf(data_dir), '--log-level', 'info', ...args]);

async function clientOf({ url }: SpawnedMain, data_dir: string): Promise<Client> {
  const token = (await readFile(pathOf(join(data_dir, 'admin.token')), 'utf8')).trim();
  return createClient({ base_url: url, token, addresses: routes });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-under-load-'));
  await chmod(directory, 0o711);
  server = await start('data');
});

afterEach(async () => {
  await server.end('SIGTERM');
  killProcessesIn(directory);
  await rm(directory, { recursive: true, force: true });
});

/** Starts writers. Each allocates, waits until the machine is up, and releases. */
function startWriters(client: Client) {
  const requested: string[] = [];
  const releasing: string[] = [];
  const released: string[] = [];
  let isStopping = false;
  const run = async () => {
    while (!isStopping) {
      const id = await allocate(client, 'busy');
      requested.push(id);
      await waitForStatus(client, id, 'active');
      await release(client, id);
      releasing.push(id);
      await waitForStatus(client, id, 'released');
      released.push(id);
    }
  };
  const all = Promise.all(Array.from({ length: writers }, run));
  return {
    acknowledged: () => ({ requested: [...requested], releasing: [...releasing], released: [...released] }),
    async stop() {
      isStopping = true;
      await all;
    },
  };
}

/** Begins a backup of the running server. It ends only with `finish`. */
async function beginSlowBackup() {
  const url = await findRunningDatabase(pathOf('data'));
  if (url === undefined) throw new Error('the embedded database does not run');
  const snapshot = await readDatabase(url, dbosSchema);
  const records = snapshot.records();
  await records.next();
  return {
    async finish() {
      let last = '';
      for await (const { kind } of records) last = kind;
      await snapshot.close();
      return last;
    },
  };
}

it('restores every change acknowledged before the backup, and delays no heartbeats or releases', async () => {
  const client = await clientOf(server, 'data');
  await declarePool(client, 'busy', { heartbeat: { interval_seconds: 1 } });
  const steadyId = await allocate(client, 'busy');
  const { node_id } = await waitForStatus(client, steadyId, 'active');
  const lastBeat = async () => (await client.call('node-get', { params: { id: node_id ?? '' } })).last_seen_at ?? '';
  const waitForBeats = async (count: number) => {
    for (let last = await lastBeat(), left = count; left > 0; left--)
      last = await until('a heartbeat', async () => {
        const next = await lastBeat();
        return next > last ? next : undefined;
      });
  };
  const load = startWriters(client);
  const waitForReleases = (more: number) => {
    const goal = load.acknowledged().released.length + more;
    return until('machines to be released', () => load.acknowledged().released.length >= goal, { seconds: 110 });
  };
  await waitForReleases(2 * writers);
  const slowBackup = await beginSlowBackup();
  await waitForBeats(3);
  // Each writer releases one machine at a time, so at least one of these was allocated after the
  // backup began.
  await waitForReleases(writers + 1);
  expect(await slowBackup.finish()).toBe('end');

  const before = load.acknowledged();
  const backup = await runBackupProgram('backup', '--data-dir', pathOf('data'), '--to', pathOf('backup'));
  expect(backup.code, backup.output).toBe(0);
  await waitForBeats(2);
  await waitForReleases(1);
  await load.stop();
  expect((await readAllocation(client, steadyId)).status).toBe('active');
  const { url: formerUrl } = server;
  await server.end('SIGTERM');

  const keys = ['--key-file', pathOf('data/keys.json')];
  const restored = await runBackupProgram('restore', pathOf('backup'), '--data-dir', pathOf('restored'), ...keys);
  expect(restored.code, restored.output).toBe(0);
  server = await start('restored', ...keys);
  expect(server.url).not.toBe(formerUrl);
  const restoredClient = await clientOf(server, 'restored');
  for (const id of before.requested) expect((await readAllocation(restoredClient, id)).allocation_id).toBe(id);
  for (const id of before.releasing)
    expect(['releasing', 'released']).toContain((await readAllocation(restoredClient, id)).status);
  for (const id of before.released) expect((await readAllocation(restoredClient, id)).status).toBe('released');
  process.stdout.write(
    `${before.requested.length} requested, ${before.releasing.length} releasing and ${before.released.length} released before the backup: all restored\n`,
  );
  const verification = await until(
    'the rows to match their evidence',
    () => {
      const args = [cli, 'verify-store', '--server', server.url, '--data-dir', pathOf('restored')];
      const run = spawnSync(process.execPath, args, { encoding: 'utf8' });
      return run.status === 0 ? run.stdout : undefined;
    },
    { seconds: 60, every_ms: 1000 },
  );
  expect(verification).toContain('match their evidence');
}, 400_000);
