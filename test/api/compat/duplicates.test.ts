/** Two running AgentField processes share one id: one keeps the name, and a finding names both. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import {
  agentFieldClient,
  createProtocolPool,
  expectProtocolError,
  type ProtocolFixture,
  protocolFixture,
} from '../support/compat-clients.ts';

let fixture: ProtocolFixture;
beforeAll(async () => {
  fixture = await protocolFixture();
});
afterAll(() => fixture.stop());

const poolOptions = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };

/** Two processes with one id. Nothing listens at their addresses, so a probe cannot decide. */
async function createProcesses(pool: string, id: string, document: object = {}) {
  const { token } = await createProtocolPool(fixture, pool, { ...poolOptions, ...document });
  const client = agentFieldClient(fixture.url, token);
  const process = (instance_id: string, base_url: string) => ({
    base_url,
    register: (lifecycle_status = 'ready') => client.register(id, { lifecycle_status, instance_id, base_url }),
    beat: (status = 'ready') => client.beat(id, { status, instance_id }),
    call: (method: string, path: string, body: object = {}) =>
      client.call(method, `/nodes/${encodeURIComponent(id)}${path}`, { ...body, instance_id }),
  });
  const freeAddress = async () => `http://127.0.0.1:${await freePort()}`;
  return { client, process, one: process('one', await freeAddress()), two: process('two', await freeAddress()) };
}

/** Waits until a heartbeat is stored, because registrations are judged by stored heartbeats. */
async function beatUntilStored(name: string, { beat }: { beat(): Promise<{ status: number }> }): Promise<void> {
  await until('an accepted heartbeat', async () => (await beat()).status === 200);
  await until('the heartbeat to be stored', async () => {
    const rows = await fixture.tables.query(
      `select 1
       from heartbeats join nodes using (node_instance_id)
       where nodes.name = $1 and stale_seconds > 3600`,
      [name],
    );
    return rows.length > 0;
  });
}

/** A busy server sheds heartbeats, so the first answer may not be the 404. */
const waitUntilUnknown = (call: () => Promise<{ status: number }>) =>
  until('the process to be unknown', async () => (await call()).status === 404);

const readFinding = async (node_id: string): Promise<Finding | undefined> =>
  (await fixture.client.call('drift-list', { query: { kind: 'identity', node_id } })).items[0];

const countEvidence = async (node_id: string): Promise<number> =>
  Number(
    (
      await fixture.tables.query<{ count: string }>('select count(*) as count from evidence where node_id = $1', [
        node_id,
      ])
    )[0]?.count,
  );

describe('two live processes under one id', () => {
  it('do not keep replacing each other: the first keeps the name, and a finding names both addresses', async () => {
    const { one, two } = await createProcesses('turns', 'twins');
    await one.register();
    await beatUntilStored('twins', one);
    // The second looks like a restart of the first, because the first address does not answer.
    expect((await two.register()).status).toBe(201);
    await beatUntilStored('twins', two);
    await waitUntilUnknown(() => one.beat());

    expect((await one.register('degraded')).status).toBe(201);
    await beatUntilStored('twins', one);
    const { node_id, restarts } = await fixture.readNode('twins');
    expect(await readFinding(node_id)).toMatchObject({
      what: 'name_contested',
      status: 'open',
      ours: { name: 'twins', endpoint: one.base_url, source: '127.0.0.1' },
      theirs: { because: 'two_processes', protocol: 'agentfield', endpoint: two.base_url, source: '127.0.0.1' },
      owner_layer: 'operator',
      ways_out: expect.arrayContaining([expect.stringContaining('re-enroll')]),
    });
    await until(
      'the node to be ready',
      async () => (await one.beat()).status === 200 && (await fixture.readStatus('twins')) === 'ready',
    );

    const countBefore = await countEvidence(node_id);
    for (let turn = 0; turn < 20; turn++) {
      const refusal = await two.register('degraded');
      expectProtocolError(refusal, 409);
      expect(refusal.body.code).toBe('name_taken');
      await waitUntilUnknown(() => two.beat('degraded'));
    }
    expect(await fixture.readNode('twins')).toMatchObject({ status: 'ready', endpoint: one.base_url, restarts });
    expect((await countEvidence(node_id)) - countBefore, 'evidence rows of 20 refused registrations').toBeLessThan(5);

    // After the first process has shut down, the second may take the name.
    expect((await one.call('POST', '/shutdown')).status).toBe(202);
    expect((await two.register()).status).toBe(201);
    expect(await fixture.readNode('twins')).toMatchObject({ endpoint: two.base_url });
  });

  it('with the same address are distinguished by their instance ids', async () => {
    const { process, one } = await createProcesses('shared', 'behind-one-address');
    const two = process('two', one.base_url);
    await one.register();
    await beatUntilStored('behind-one-address', one);
    await two.register();
    await beatUntilStored('behind-one-address', two);
    await one.register();
    await beatUntilStored('behind-one-address', one);
    expectProtocolError(await two.register(), 409);
    const { node_id } = await fixture.readNode('behind-one-address');
    expect(await readFinding(node_id)).toMatchObject({ theirs: { because: 'two_processes', endpoint: one.base_url } });
  });

  it.each([
    ['keep_name: latest', 'latest', { keep_name: 'latest' }],
    ['allow_takeover', 'takeover', { allow_takeover: true }],
  ])('leave the name to the latest process with %s', async (_, pool, compat) => {
    const { one, two } = await createProcesses(pool, `${pool}-twins`, { compat });
    await one.register();
    await beatUntilStored(`${pool}-twins`, one);
    await two.register();
    await beatUntilStored(`${pool}-twins`, two);
    expectProtocolError(await one.register(), 409);
    const { node_id, endpoint } = await fixture.readNode(`${pool}-twins`);
    expect(endpoint).toBe(two.base_url);
    expect(await readFinding(node_id)).toMatchObject({
      ours: { endpoint: two.base_url },
      theirs: { because: 'two_processes', endpoint: one.base_url },
    });
  });

  it('are separate: a replaced process cannot renew or end the lease of its successor', async () => {
    const { one, two } = await createProcesses('replaced', 'replaced');
    await one.register();
    await beatUntilStored('replaced', one);
    await two.register();
    await beatUntilStored('replaced', two);
    await waitUntilUnknown(() => one.call('PATCH', '/status', { phase: 'degraded' }));
    await waitUntilUnknown(() => one.call('POST', '/lifecycle/status', { lifecycle_status: 'degraded' }));
    await waitUntilUnknown(() => one.call('POST', '/actions/ack'));
    await waitUntilUnknown(() => one.call('POST', '/shutdown'));
    expect(await fixture.readStatus('replaced')).toBe('ready');
    expect((await two.call('PATCH', '/status', { phase: 'ready' })).status).toBe(200);
  });
});

describe('a node that starts after its goodbye', () => {
  it.each([
    ['without an instance id', 'unnamed', {}, {}],
    ['with the same instance id', 'same', { instance_id: 'one' }, { instance_id: 'one' }],
    ['with another instance id', 'other', { instance_id: 'one' }, { instance_id: 'two' }],
  ])('%s is not ready before it reports ready', async (_, id, first, laterFields) => {
    const { token } = await createProtocolPool(fixture, `goodbye-${id}`, {
      ...poolOptions,
      budgets: { start_seconds: 24 * 3600 },
    });
    const client = agentFieldClient(fixture.url, token);
    await client.register(id, { lifecycle_status: 'ready', ...first });
    expect((await client.call('POST', `/nodes/${id}/shutdown`, {})).status).toBe(202);
    expect(await fixture.readStatus(id)).toBe('offline');
    const { node_id } = await fixture.readNode(id);
    const registration = await client.register(id, laterFields);
    expect(registration).toMatchObject({ status: 201, body: { lifecycle_status: 'starting' } });
    await until('an accepted heartbeat', async () => (await client.beat(id)).status === 200);
    expect(await fixture.readNode(id)).toMatchObject({ node_id, status: 'starting' });
    await until(
      'the report of ready to be accepted',
      async () => (await client.beat(id, { status: 'ready' })).status === 200,
    );
    expect(await fixture.readStatus(id)).toBe('ready');
  });
});

describe('an id that is not a valid name', () => {
  it.each([
    ['with a space', 'my first node'],
    ['with non-ASCII letters', 'Knoten für Übungen'],
    ['of the maximum length', `${'a b'.repeat(66)}xy`],
    ['with a percent sign', '100%25 sure'],
  ])('%s gets a derived name, and keeps its id', async (_, id) => {
    const { token } = await createProtocolPool(fixture, 'odd', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    const registration = await client.register(id, { lifecycle_status: 'ready' });
    expect(registration, registration.text).toMatchObject({
      status: 201,
      body: { node_id: id, lifecycle_status: 'ready' },
    });
    expect((await client.beat(id, { status: 'ready' })).status).toBe(200);
    const { nodes } = (await client.call('GET', '/nodes')).body as { nodes: { id: string }[] };
    expect(nodes.map((each) => each.id)).toContain(id);
    expect((await client.call('GET', `/nodes/${encodeURIComponent(id)}`)).body).toMatchObject({ id });
    expect((await client.call('POST', `/nodes/${encodeURIComponent(id)}/shutdown`, {})).status).toBe(202);
  });

  it('is found when the Go SDK escapes it twice', async () => {
    const { token } = await createProtocolPool(fixture, 'twice-escaped', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    await client.call('POST', '/nodes', { id: 'go node', base_url: '' });
    const path = `/nodes/${encodeURIComponent(encodeURIComponent('go node'))}`;
    expect((await client.call('PATCH', `${path}/status`, { phase: 'ready', health_score: 100 })).status).toBe(200);
    expect((await client.call('GET', path)).body).toMatchObject({ id: 'go node', lifecycle_status: 'ready' });
    expect((await client.call('POST', `${path}/shutdown`, { reason: 'shutdown' })).status).toBe(202);
    expectProtocolError(await client.call('PATCH', '/nodes/%25zz/status', { phase: 'ready' }), 404);
  });

  it('with a control character is refused', async () => {
    const { token } = await createProtocolPool(fixture, 'controls', poolOptions);
    expectProtocolError(await agentFieldClient(fixture.url, token).register('two\nlines'), 400);
  });
});
