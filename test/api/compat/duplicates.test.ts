/** Two live AgentField processes under one id: one keeps the name, and a finding names both. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import {
  agentField,
  expectTheirError,
  type ProtocolFixture,
  protocolFixture,
  protocolPool,
} from '../support/compat-clients.ts';

let fixture: ProtocolFixture;
beforeAll(async () => {
  fixture = await protocolFixture();
});
afterAll(() => fixture.stop());

const patient = { heartbeat: { stale_after_seconds: 24 * 3600 }, probe: { allow_private: true } };

/** Two processes of one id. Nothing listens at their addresses, so no probe tells them apart. */
async function processes(pool: string, id: string, document: object = {}) {
  const { token } = await protocolPool(fixture, pool, { ...patient, ...document });
  const client = agentField(fixture.url, token);
  const process = (instance_id: string, base_url: string) => ({
    base_url,
    register: (lifecycle_status = 'ready') => client.register(id, { lifecycle_status, instance_id, base_url }),
    beat: (status = 'ready') => client.beat(id, { status, instance_id }),
    call: (method: string, path: string, body: object = {}) =>
      client.call(method, `/nodes/${encodeURIComponent(id)}${path}`, { ...body, instance_id }),
  });
  const place = async () => `http://127.0.0.1:${await freePort()}`;
  return { client, process, one: process('one', await place()), two: process('two', await place()) };
}

/** Waits until the heartbeat is stored, by which a registration is judged. */
async function beats(name: string, { beat }: { beat(): Promise<{ status: number }> }): Promise<void> {
  await until('a beat that is taken', async () => (await beat()).status === 200);
  await until('the beat to be in the table', async () => {
    const rows = await fixture.tables.query(
      `select 1 from heartbeats join nodes using (node_instance_id) where nodes.name = $1 and stale_seconds > 3600`,
      [name],
    );
    return rows.length > 0;
  });
}

/** A busy server sheds heartbeats, so the first answer need not be the verdict. */
const isUnknown = (call: () => Promise<{ status: number }>) =>
  until('the process to be unknown', async () => (await call()).status === 404);

const findingOf = async (node_id: string): Promise<Finding | undefined> =>
  (await fixture.client.call('drift-list', { query: { kind: 'identity', node_id } })).items[0];

const factsOf = async (node_id: string): Promise<number> =>
  Number(
    (
      await fixture.tables.query<{ count: string }>('select count(*) as count from evidence where node_id = $1', [
        node_id,
      ])
    )[0]?.count,
  );

describe('two live processes under one id', () => {
  it('do not swap the name for ever: the first keeps it, and a finding names both addresses', async () => {
    const { one, two } = await processes('turns', 'twins');
    await one.register();
    await beats('twins', one);
    // It looks like a restart of the first, whose address does not answer.
    expect((await two.register()).status).toBe(201);
    await beats('twins', two);
    await isUnknown(() => one.beat());

    expect((await one.register('degraded')).status).toBe(201);
    await beats('twins', one);
    const { node_id, restarts } = await fixture.node('twins');
    expect(await findingOf(node_id)).toMatchObject({
      what: 'name_contested',
      status: 'open',
      ours: { name: 'twins', endpoint: one.base_url, source: '127.0.0.1' },
      theirs: { because: 'two_processes', protocol: 'agentfield', endpoint: two.base_url, source: '127.0.0.1' },
      owner_layer: 'operator',
      ways_out: expect.arrayContaining([expect.stringContaining('re-enroll')]),
    });
    expect((await findingOf(node_id))?.says).toContain(`${one.base_url} (from 127.0.0.1)`);
    await until(
      'it to be ready',
      async () => (await one.beat()).status === 200 && (await fixture.status('twins')) === 'ready',
    );

    const before = await factsOf(node_id);
    for (let turn = 0; turn < 20; turn++) {
      const refused = await two.register('degraded');
      expectTheirError(refused, 409);
      expect(refused.body.code).toBe('name_taken');
      await isUnknown(() => two.beat('degraded'));
    }
    expect(await fixture.node('twins')).toMatchObject({ status: 'ready', endpoint: one.base_url, restarts });
    expect((await factsOf(node_id)) - before, 'facts that 20 refused registrations left').toBeLessThan(5);

    // After the holder left, the other one may have the name.
    expect((await one.call('POST', '/shutdown')).status).toBe(202);
    expect((await two.register()).status).toBe(201);
    expect(await fixture.node('twins')).toMatchObject({ endpoint: two.base_url });
  });

  it('with the same address are still told apart', async () => {
    const { process, one } = await processes('shared', 'behind-one-address');
    const two = process('two', one.base_url);
    await one.register();
    await beats('behind-one-address', one);
    await two.register();
    await beats('behind-one-address', two);
    await one.register();
    await beats('behind-one-address', one);
    expectTheirError(await two.register(), 409);
    const { node_id } = await fixture.node('behind-one-address');
    expect(await findingOf(node_id)).toMatchObject({ theirs: { because: 'two_processes', endpoint: one.base_url } });
  });

  it.each([
    ['the latest keeps the name where the pool says so', 'latest', { keep_name: 'latest' }],
    ['the latest keeps it where any token may take a name', 'takeover', { allow_takeover: true }],
  ])('%s', async (_, pool, compat) => {
    const { one, two } = await processes(pool, `${pool}-twins`, { compat });
    await one.register();
    await beats(`${pool}-twins`, one);
    await two.register();
    await beats(`${pool}-twins`, two);
    expectTheirError(await one.register(), 409);
    const { node_id, endpoint } = await fixture.node(`${pool}-twins`);
    expect(endpoint).toBe(two.base_url);
    expect(await findingOf(node_id)).toMatchObject({
      ours: { endpoint: two.base_url },
      theirs: { because: 'two_processes', endpoint: one.base_url },
    });
  });

  it('cannot renew or end the lease of the one that replaced it', async () => {
    const { one, two } = await processes('replaced', 'replaced');
    await one.register();
    await beats('replaced', one);
    await two.register();
    await beats('replaced', two);
    await isUnknown(() => one.call('PATCH', '/status', { phase: 'degraded' }));
    await isUnknown(() => one.call('POST', '/lifecycle/status', { lifecycle_status: 'degraded' }));
    await isUnknown(() => one.call('POST', '/actions/ack'));
    await isUnknown(() => one.call('POST', '/shutdown'));
    expect(await fixture.status('replaced')).toBe('ready');
    expect((await two.call('PATCH', '/status', { phase: 'ready' })).status).toBe(200);
  });
});

describe('a node that starts after its goodbye', () => {
  it.each([
    ['that names no process', 'unnamed', {}, {}],
    ['that names the same process', 'same', { instance_id: 'one' }, { instance_id: 'one' }],
    ['that names another process', 'other', { instance_id: 'one' }, { instance_id: 'two' }],
  ])('%s is not ready before it says so', async (_, id, first, again) => {
    const { token } = await protocolPool(fixture, `goodbye-${id}`, {
      ...patient,
      budgets: { start_seconds: 24 * 3600 },
    });
    const client = agentField(fixture.url, token);
    await client.register(id, { lifecycle_status: 'ready', ...first });
    expect((await client.call('POST', `/nodes/${id}/shutdown`, {})).status).toBe(202);
    expect(await fixture.status(id)).toBe('offline');
    const { node_id } = await fixture.node(id);
    const returned = await client.register(id, again);
    expect(returned).toMatchObject({ status: 201, body: { lifecycle_status: 'starting' } });
    await until('a beat that is taken', async () => (await client.beat(id)).status === 200);
    expect(await fixture.node(id)).toMatchObject({ node_id, status: 'starting' });
    await until('its word to be taken', async () => (await client.beat(id, { status: 'ready' })).status === 200);
    expect(await fixture.status(id)).toBe('ready');
  });
});

describe('an id that is no valid name', () => {
  it.each([
    ['with a space', 'my first node'],
    ['of another script', 'Knoten für Übungen'],
    ['as long as may be', `${'a b'.repeat(66)}xy`],
    ['with a percent sign', '100%25 sure'],
  ])('%s gets a derived name, and keeps its id', async (_, id) => {
    const { token } = await protocolPool(fixture, 'odd', patient);
    const client = agentField(fixture.url, token);
    const registered = await client.register(id, { lifecycle_status: 'ready' });
    expect(registered, registered.text).toMatchObject({
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
    const { token } = await protocolPool(fixture, 'twice-escaped', patient);
    const client = agentField(fixture.url, token);
    await client.call('POST', '/nodes', { id: 'go node', base_url: '' });
    const path = `/nodes/${encodeURIComponent(encodeURIComponent('go node'))}`;
    expect((await client.call('PATCH', `${path}/status`, { phase: 'ready', health_score: 100 })).status).toBe(200);
    expect((await client.call('GET', path)).body).toMatchObject({ id: 'go node', lifecycle_status: 'ready' });
    expect((await client.call('POST', `${path}/shutdown`, { reason: 'shutdown' })).status).toBe(202);
    expectTheirError(await client.call('PATCH', '/nodes/%25zz/status', { phase: 'ready' }), 404);
  });

  it('with a control character is refused', async () => {
    const { token } = await protocolPool(fixture, 'controls', patient);
    expectTheirError(await agentField(fixture.url, token).register('two\nlines'), 400);
  });
});
