/**
 * A server on a restored backup observes: machines that came, went or changed hands since the
 * backup keep running, and are listed. When a person ends the restoration, the server quarantines
 * the machines that an unknown tenant may use, and acts again.
 */
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Client, createClient, RequestRefused } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import type { RestorationDifference } from '../../src/contract/supervision/restoration.ts';
import type { RestoredDifferenceKind } from '../../src/lifecycle/findings/restored-differences.ts';
import { allocate, declarePool, release, waitForStatuses } from '../support/allocations.ts';
import { runBackupProgram } from '../support/backup-program.ts';
import { freePort } from '../support/free-port.ts';
import { type SpawnedMain, spawnMain } from '../support/server.ts';
import { findTaggedProcesses, killProcessesIn } from '../support/tagged-processes.ts';
import { until } from '../support/until.ts';

const handedOver = 20;
/** The number of machines that go after the backup, and of those that come. */
const replacedCount = 3;

let directory: string;
let port: number;
let server: SpawnedMain;
const place = (name: string) => join(directory, name);

/** All servers use the same port and nodes directory, so running agents reach the next server. */
const start = (data_dir: string, ...args: string[]) =>
  spawnMain([
    ...['--port', String(port), '--data-dir', place(data_dir), '--nodes-dir', place('nodes')],
    ...['--log-level', 'info', '--drain-seconds', '0', ...args],
  ]);

async function clientOf(data_dir: string): Promise<Client> {
  const token = (await readFile(place(join(data_dir, 'admin.token')), 'utf8')).trim();
  return createClient({ base_url: server.url, token, addresses: routes });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-restored-server-'));
  await chmod(directory, 0o711);
  port = await freePort();
  server = await start('data');
});

afterEach(async () => {
  await server.end('SIGTERM');
  killProcessesIn(directory);
  await rm(directory, { recursive: true, force: true });
});

const allocateMany = (client: Client, pool: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => allocate(client, pool)));

async function listDifferences(client: Client): Promise<Map<RestoredDifferenceKind, RestorationDifference[]>> {
  const { items } = await client.call('restoration-differences', { query: { limit: 500 } });
  return Map.groupBy(items, ({ kind }) => kind);
}

const refusalOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'accepted',
    (error: unknown) => (error instanceof RequestRefused ? error.problem.code : String(error)),
  );

it(`harms none of ${handedOver} machines that changed hands since the backup, and lists them`, async () => {
  let client = await clientOf('data');
  const heartbeat = { interval_seconds: 1 };
  await declarePool(client, 'reused', { heartbeat, reuse: true, max_nodes: handedOver });
  await declarePool(client, 'single', { heartbeat, max_nodes: 2 * replacedCount });
  const former = await allocateMany(client, 'reused', handedOver);
  const leaving = await allocateMany(client, 'single', replacedCount);
  const held = await waitForStatuses(client, former, 'active');
  const left = await waitForStatuses(client, leaving, 'active');
  const taken = await runBackupProgram('backup', '--data-dir', place('data'), '--to', place('backup'));
  expect(taken.code, taken.output).toBe(0);

  // After the backup all machines of `reused` change hands, and those of `single` are replaced.
  for (const id of [...former, ...leaving]) await release(client, id);
  await waitForStatuses(client, [...former, ...leaving], 'released');
  const current = await allocateMany(client, 'reused', handedOver);
  const arriving = await allocateMany(client, 'single', replacedCount);
  const now_held = await waitForStatuses(client, current, 'active');
  const arrived = await waitForStatuses(client, arriving, 'active');
  expect(now_held.map(({ node_id }) => node_id).sort()).toEqual(held.map(({ node_id }) => node_id).sort());
  const { identity } = await client.call('health-get', { query: { nonce: 'restored-server-test' } });
  const installation_id = identity?.installation_id ?? '';
  const processes = () =>
    findTaggedProcesses(installation_id)
      .map(({ pid }) => pid)
      .sort();
  const running = processes();
  await server.end('SIGKILL');
  killProcessesIn(place('data'));

  const keys = ['--key-file', place('data/keys.json')];
  const restored = await runBackupProgram('restore', place('backup'), '--data-dir', place('restored'), ...keys);
  expect(restored.code, restored.output).toBe(0);
  server = await start('restored', ...keys);
  client = await clientOf('restored');
  expect(server.output()).toContain('this server changes no machine');

  const differences = await until(
    'all differences',
    async () => {
      const found = await listDifferences(client);
      const { newest } = await client.call('restoration-get', {});
      const isComplete =
        found.get('changed_hands')?.length === handedOver &&
        found.get('came')?.length === replacedCount &&
        found.get('gone')?.length === replacedCount &&
        !found.has('unconfirmed');
      return isComplete && newest?.inspected_at ? found : undefined;
    },
    { seconds: 150 },
  );
  const nodesOf = (kind: RestoredDifferenceKind) => (differences.get(kind) ?? []).map(({ node_id }) => node_id).sort();
  expect(nodesOf('changed_hands')).toEqual(held.map(({ node_id }) => node_id).sort());
  expect(nodesOf('came')).toEqual(arrived.map(({ node_id }) => node_id).sort());
  expect(nodesOf('gone')).toEqual(left.map(({ node_id }) => node_id).sort());

  const [anyFormer = ''] = former;
  expect(await refusalOf(allocate(client, 'reused'))).toBe('restoration_open');
  expect(await refusalOf(release(client, anyFormer))).toBe('restoration_open');
  const { problems } = await client.call('server-status', {});
  expect(problems.map(({ code }) => code)).toContain('database_restored');
  // Wait until every frequent sweep has run once more: none of them may end a machine.
  const runsBefore = await readRuns(client);
  await until(
    'another round of every frequent sweep',
    async () => {
      const runs = await readRuns(client);
      return [...runs].every(([name, count]) => count > (runsBefore.get(name) ?? 0));
    },
    { seconds: 60 },
  );
  expect(processes()).toEqual(running);
  expect((await waitForStatuses(client, former, 'active')).length).toBe(handedOver);

  const { quarantined } = await client.call('restoration-end', { body: { reason: 'compared', trust_free: true } });
  expect(quarantined).toBe(handedOver);
  expect((await client.call('restoration-get', {})).observing).toBe(false);
  // The machines that came become residue, and the nodes of those that went fail.
  await until(
    'the machines that came to be residue',
    async () => {
      const { items } = await client.call('residue-list', { query: {} });
      const found = new Set(items.map(({ node_id }) => node_id));
      return arrived.every(({ node_id }) => found.has(node_id));
    },
    { seconds: 180 },
  );
  await until(
    'the nodes of machines that went to fail',
    async () => {
      const statuses = await Promise.all(
        left.map(({ node_id }) => client.call('node-get', { params: { id: node_id ?? '' } })),
      );
      return statuses.every(({ status }) => ['offline', 'failed', 'cleaning', 'retired'].includes(status));
    },
    { seconds: 180 },
  );
  // The former tenants released these machines before the restore. Another release by such a tenant
  // must not reach a machine, because it has a new tenant.
  await waitForStatuses(client, former, 'released');
  expect(await refusalOf(release(client, anyFormer))).toBe('action_illegal');
  expect(processes()).toEqual(running);
  await reconcile(
    client,
    held.map(({ node_id }) => node_id ?? ''),
    processes,
  );
}, 600_000);

/**
 * A person decides about each machine that changed hands: half of them serve again, and the others
 * are torn down. None stays quarantined.
 */
async function reconcile(client: Client, node_ids: string[], processes: () => number[]): Promise<void> {
  const kept = node_ids.slice(0, handedOver / 2);
  const ended = node_ids.slice(handedOver / 2);
  const act = (id: string, action: 'reactivate' | 'retire', reason: string) =>
    client.call('node-act', { params: { id, action }, body: { reason } });
  const statusesOf = async (ids: string[]) =>
    Promise.all(ids.map(async (id) => (await client.call('node-get', { params: { id } })).status));
  expect(new Set(await statusesOf(node_ids))).toEqual(new Set(['quarantined']));
  const runningBefore = processes().length;
  for (const id of kept) await act(id, 'reactivate', 'its tenant is known');
  for (const id of ended) await act(id, 'retire', 'its tenant allocates again');
  await until(
    'each machine to serve again or to be torn down',
    async () =>
      (await statusesOf(kept)).every((status) => status === 'ready') &&
      (await statusesOf(ended)).every((status) => status === 'retired'),
    { seconds: 180 },
  );
  const { items } = await client.call('residue-list', { query: {} });
  expect(items.filter(({ node_id }) => node_id !== null && node_ids.includes(node_id))).toEqual([]);
  expect(processes().length).toBeLessThanOrEqual(runningBefore - ended.length);
  // The machines that serve again accept work.
  const allocations = await allocateMany(client, 'reused', kept.length);
  const used = await waitForStatuses(client, allocations, 'active');
  expect(used.map(({ node_id }) => node_id ?? '').toSorted()).toEqual(kept.toSorted());
}

/** How often each frequent sweep has run. */
async function readRuns(client: Client): Promise<Map<string, number>> {
  const { items } = await client.call('sweep-list', {});
  return new Map(items.filter(({ every_seconds }) => every_seconds <= 10).map(({ name, runs }) => [name, runs]));
}
