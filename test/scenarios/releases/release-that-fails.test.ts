/**
 * Releases and provisions that are requested at the wrong moment or fail on the machine. Each ends
 * in a status with a reason and a next step.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { allocate, declarePool, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import {
  type DatabaseConnection,
  expectNothingLeft,
  openDatabaseConnection,
} from '../../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';

// Longer than any single wait, so that the error of the wait names the missing condition.
vi.setConfig({ testTimeout: 150_000 });

let server: TestServer;
let db: DatabaseConnection;
let files: string;
beforeAll(async () => {
  files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
  server = await inProcessServer();
  db = await openDatabaseConnection(server.database_url);
});
afterAll(async () => {
  await db?.close();
  await server?.stop();
  await rm(files, { recursive: true, force: true });
});

const file = (name: string) => join(files, name);
const touch = (name: string) => writeFile(file(name), '');
const readInstances = (node_id: string | null) =>
  db.query<{ node_instance_id: string }>('select node_instance_id from instances where node_id = $1 order by attempt', [
    node_id,
  ]);
const findAgents = (node_instance_id: string) =>
  findTaggedProcesses(db.installation_id).filter((each) => each.agent && each.node_instance_id === node_instance_id);
const readInstance = async (id: string) => {
  const { node_id } = await readAllocation(server.client, id);
  return (await readInstances(node_id)).at(-1)?.node_instance_id ?? '';
};
const expectReleased = async (id: string) => {
  await waitForStatus(server.client, id, 'released');
  await expectNothingLeft(db, server.nodes_dir, 1);
};

it('releases a machine before its registration with proof, and fences a later registration', async () => {
  await declarePool(server.client, 'unborn', { spec: { setup: `while [ ! -e ${file('born')} ]; do sleep 0.1; done` } });
  const id = await allocate(server.client, 'unborn');
  const enrolment = await until('the agent to be launched', async () => {
    const instance = await readInstance(id);
    if (!instance || findAgents(instance).length === 0) return undefined;
    return JSON.parse(await readFile(join(server.nodes_dir, instance, 'agent.json'), 'utf8')) as {
      enrollment_token: string;
    };
  });
  await release(server.client, id);
  await expectReleased(id);
  expect(await db.countEvidence(id, 'instance.fenced')).toBe(1);

  const agent_public_key = generateKeyPairSync('ed25519')
    .publicKey.export({ format: 'der', type: 'spki' })
    .toString('base64');
  const lateRegistration = server.as('').call('agent-register', {
    body: { enrollment_token: enrolment.enrollment_token, version: 'late/1', agent_public_key },
  });
  await expect(lateRegistration).rejects.toMatchObject({ problem: { code: 'instance_fenced' } });
  expect((await readAllocation(server.client, id)).status).toBe('released');
});

it('ends a machine that is released during its start before it was ever ready', async () => {
  // The command exits repeatedly, so this machine never becomes ready.
  await declarePool(server.client, 'starting', { spec: { command: ['false'] } });
  const id = await allocate(server.client, 'starting');
  await until('the node to be starting', async () => (await db.countEvidence(id, 'node.starting')) === 1);
  await release(server.client, id);
  await expectReleased(id);
  expect(await db.countEvidence(id, 'allocation.active')).toBe(0);
});

it('fails a provision at once when its set-up fails, with the cause, and a retry brings a new instance', async () => {
  await declarePool(server.client, 'unset', {
    spec: { setup: `test -e ${file('settable')} || { echo the mirror is away >&2; exit 7; }` },
  });
  const id = await allocate(server.client, 'unset');
  const failed = await waitForStatus(server.client, id, 'failed');
  expect(failed.reason).toContain('setup exited with code 7: the mirror is away (the agent gave up: setup_failed)');
  // The machine ended, so the verdict is certain.
  expect(failed).toMatchObject({ owner_layer: 'node', verdict: { rule: 'node-failed', certain: true } });
  const frozenEvidence = await until('the frozen evidence of the machine', async () => {
    const [row] = await db.query<{ data: object }>(
      `select data from evidence where allocation_id = $1 and kind = 'evidence.frozen'`,
      [id],
    );
    return row;
  });
  expect(JSON.stringify(frozenEvidence.data)).toContain('the mirror is away');
  const [first] = await readInstances(failed.node_id);

  await touch('settable');
  await server.client.call('allocation-retry', { params: { id } });
  const active = await waitForStatus(server.client, id, 'active');
  expect(active.node_id).toBe(failed.node_id);
  const [former, current, ...others] = await readInstances(failed.node_id);
  expect(former).toEqual(first);
  expect(current?.node_instance_id).not.toBe(first?.node_instance_id);
  expect(others).toEqual([]);
  await release(server.client, id);
  await expectReleased(id);
});

it('clears the deadline of a failed allocation once its machine is taken down, and releases it afterwards', async () => {
  const { client } = server;
  await declarePool(client, 'hopeless', {
    spec: { setup: 'exit 7' },
    budgets: { provision_seconds: 60, rescue_seconds: 6 },
  });
  const id = await allocate(client, 'hopeless');
  const failed = await waitForStatus(client, id, 'failed');
  // The deadline is set with the failure, while the operation still freezes evidence. Read it from
  // the evidence, because on a busy machine the row may already have changed.
  const [fact] = await db.query<{ deadline_at: string | null }>(
    `select data #>> '{set,deadline_at}' as deadline_at
     from evidence
     where allocation_id = $1 and kind = 'allocation.failed'`,
    [id],
  );
  expect(fact?.deadline_at).toEqual(expect.any(String));
  const node = await until('the machine to be retired', async () => {
    const found = await client.call('node-get', { params: { id: failed.node_id ?? '' } });
    return found.status === 'retired' ? found : undefined;
  });
  expect(node.observed).toBeNull();
  expect(await readAllocation(client, id)).toMatchObject({ status: 'failed', deadline_at: null, budget_seconds: null });
  await release(client, id);
  const { reason } = await waitForStatus(client, id, 'released');
  expect(reason).toBe('its machine was already gone, so there was nothing to tear down');
});

it('gives a cleaned machine of a reusing pool to the next allocation, and takes down one whose agent died', async () => {
  await declarePool(server.client, 'again', { reuse: true, max_nodes: 1, spec: { command: ['sleep', '600'] } });
  const first = await allocate(server.client, 'again');
  const { node_id } = await waitForStatus(server.client, first, 'active');
  const instance = await readInstance(first);
  const work = join(server.nodes_dir, instance, 'work');
  await writeFile(join(work, '.secret'), 'of the first tenant');
  await release(server.client, first);
  await waitForStatus(server.client, first, 'released');
  expect(await readdir(work), 'files of the first tenant').toEqual([]);
  expect(await db.countEvidence(first, 'proof.clean')).toBe(1);
  const node = await server.client.call('node-get', { params: { id: node_id ?? '' } });
  expect(node).toMatchObject({ status: 'ready', occupancy: 'free', fenced: false });

  const second = await allocate(server.client, 'again');
  expect(await waitForStatus(server.client, second, 'active')).toMatchObject({ node_id });
  expect(await readInstance(second)).toBe(instance);
  const [agent] = findAgents(instance);
  process.kill(agent?.pid ?? 0, 'SIGKILL');
  await release(server.client, second);
  await expectReleased(second);
  expect(await db.countEvidence(second, 'proof.absent')).toBe(1);
});

it('quarantines a machine whose retirement fails, names the owner, and settles the residue once it is retired again', async () => {
  const { client } = server;
  const clean = `test -e ${file('cleanable')} || { echo the volume is locked; exit 3; }`;
  const oneTry = { step_tries: 1, retry_base_seconds: 600 };
  await declarePool(client, 'leaving', { spec: { command: ['sleep', '600'], clean }, release: oneTry });
  const id = await allocate(client, 'leaving');
  await waitForStatus(client, id, 'active');
  await release(client, id);
  const { node_id } = await waitForStatus(client, id, 'release_failed');
  const reason = 'the tenant cannot wait';
  await client.call('allocation-act', { params: { id, action: 'force-release' }, body: { reason } });
  await waitForStatus(client, id, 'released');
  const readResidueStatuses = async () => {
    const { items } = await client.call('residue-list', {});
    return items.filter((each) => each.allocation_id === id).map(({ status }) => status);
  };
  expect(await readResidueStatuses()).toEqual(['open']);

  const node = () => client.call('node-get', { params: { id: node_id ?? '' } });
  const retire = () => client.call('node-act', { params: { id: node_id ?? '', action: 'retire' }, body: { reason } });
  const workflow_id = (await retire()).operation?.workflow_id ?? '';
  await until('the retirement to fail', async () => {
    const { status } = await client.call('operation-get', { params: { id: workflow_id } });
    return status === 'failed';
  });
  expect(await node()).toMatchObject({
    ...{ status: 'quarantined', fenced: true, occupancy: 'cleanup' },
    verdict: { rule: 'clean-error', owner: 'node' },
  });
  expect((await node()).verdict?.reason).toMatch(
    /^the teardown failed at step clean \(owner node\): .*the volume is locked/,
  );
  const secondRetry = client.call('operation-retry', { params: { id: workflow_id } });
  await expect(secondRetry).rejects.toThrow(/the action `retire` on the node/);

  await touch('cleanable');
  await retire();
  await until('the machine to be retired', async () => (await node()).status === 'retired');
  // The residue is settled in the transaction that retires the machine, without another check.
  expect(await readResidueStatuses()).toEqual(['gone']);
  await expectNothingLeft(db, server.nodes_dir, 1);
});

it('rescues a machine that registers after its deadline but within its rescue window', async () => {
  await declarePool(server.client, 'late', {
    spec: { setup: `while [ ! -e ${file('awake')} ]; do sleep 0.1; done` },
    // Long enough for a busy host to start the process before the deadline.
    budgets: { provision_seconds: 4, rescue_seconds: 120 },
  });
  const id = await allocate(server.client, 'late');
  const failed = await waitForStatus(server.client, id, 'failed');
  expect(failed.reason).toMatch(
    /^provisioning timed out.* \(waited \d+ s, budget from pool(, deadline moved by \d+ s)?\)$/,
  );
  await touch('awake');
  const active = await waitForStatus(server.client, id, 'active');
  expect(active.node_id).toBe(failed.node_id);
  expect(await readInstances(active.node_id)).toHaveLength(1);
  await release(server.client, id);
  await expectReleased(id);
});
