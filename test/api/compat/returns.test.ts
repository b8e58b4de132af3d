/** Nodes of foreign protocols that register again: restarts, refusals, and expired tokens. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import { httpServer, type LoopbackServer } from '../../../src/probe/testing/loopback-servers.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import {
  agentField,
  expectTheirError,
  molecule,
  type ProtocolFixture,
  protocolFixture,
  protocolPool,
  startWorkspace,
} from '../support/compat-clients.ts';
import { startMachine } from '../support/machine.ts';

let fixture: ProtocolFixture;
beforeAll(async () => {
  fixture = await protocolFixture();
});
afterAll(() => fixture.stop());

const poolOptions = { probe: { allow_private: true }, heartbeat: { stale_after_seconds: 24 * 3600 } };
const startListener = (): Promise<LoopbackServer> => httpServer((_, reply) => reply.end('well'));
const urlAt = (port: number) => `http://127.0.0.1:${port}`;
const ready = { lifecycle_status: 'ready' };

async function allocateNode(pool: string, name: string): Promise<string> {
  const { allocation } = await fixture.client.call('allocation-create', { body: { pool } });
  return until(`${name} to serve a tenant`, async () =>
    (await fixture.node(name)).allocation_id === allocation.allocation_id ? allocation.allocation_id : undefined,
  );
}

async function readFinding(node_id: string): Promise<Finding | undefined> {
  const { items } = await fixture.client.call('drift-list', { query: { kind: 'identity', node_id } });
  return items[0];
}

describe('an AgentField node', () => {
  it('at its former address is a restart, also while it serves a tenant', async () => {
    const { token } = await protocolPool(fixture, 'same', poolOptions);
    const client = agentField(fixture.url, token);
    const base_url = urlAt((await startListener()).port);
    await client.register('steady', { ...ready, instance_id: 'one', base_url });
    const allocation = await allocateNode('same', 'steady');
    const before = await fixture.node('steady');
    expect((await client.register('steady', { ...ready, instance_id: 'two', base_url: `${base_url}/` })).status).toBe(
      201,
    );
    const after = await fixture.node('steady');
    expect(after).toMatchObject({ node_instance_id: before.node_instance_id, allocation_id: allocation, restarts: 1 });
    expect(await readFinding(before.node_id)).toBeUndefined();
  });

  it('at a new address is a restart if the former one no longer answers', async () => {
    const { token } = await protocolPool(fixture, 'moves', poolOptions);
    const client = agentField(fixture.url, token);
    await client.register('mover', { ...ready, instance_id: 'one', base_url: urlAt(await freePort()) });
    const base_url = urlAt((await startListener()).port);
    expect((await client.register('mover', { ...ready, instance_id: 'two', base_url })).status).toBe(201);
    expect(await fixture.node('mover')).toMatchObject({ endpoint: base_url, restarts: 1, status: 'ready' });
  });

  it('is refused while another process with its name runs, and a finding is opened', async () => {
    const { token } = await protocolPool(fixture, 'twice', poolOptions);
    const client = agentField(fixture.url, token);
    const base_url = urlAt((await startListener()).port);
    await client.register('one-of-two', { ...ready, instance_id: 'one', base_url });
    const { node_id } = await fixture.node('one-of-two');
    const second = await client.register('one-of-two', {
      instance_id: 'two',
      base_url: urlAt((await startListener()).port),
    });
    expectTheirError(second, 409);
    expect(second.body.code).toBe('name_taken');
    expect(await fixture.node('one-of-two')).toMatchObject({ endpoint: base_url, status: 'ready', restarts: 0 });
    expect(await readFinding(node_id)).toMatchObject({
      what: 'name_contested',
      status: 'open',
      ours: { name: 'one-of-two', endpoint: base_url },
      theirs: { because: 'second_process', protocol: 'agentfield', endpoint: expect.stringContaining('http://') },
      owner_layer: 'operator',
    });
    // A process that answers probes still runs, even after its goodbye.
    await client.call('POST', '/nodes/one-of-two/shutdown', {});
    expectTheirError(
      await client.register('one-of-two', { instance_id: 'two', base_url: urlAt(await freePort()) }),
      409,
    );
  });

  it('without an address is refused while the former process sends heartbeats, and admitted after its goodbye', async () => {
    const { token } = await protocolPool(fixture, 'nowhere', poolOptions);
    const client = agentField(fixture.url, token);
    await client.register('homeless', { ...ready, instance_id: 'one' });
    // A busy server sheds heartbeats.
    await until('a beat that is taken', async () => {
      const { status } = await client.beat('homeless', { status: 'ready', instance_id: 'one' });
      return status === 200;
    });
    await fixture.pace('homeless', { stale_seconds: 24 * 3600 });
    expectTheirError(await client.register('homeless', { instance_id: 'two' }), 409);
    expect((await client.call('POST', '/nodes/homeless/shutdown', {})).status).toBe(202);
    expect(await client.register('homeless', { instance_id: 'two' })).toMatchObject({ status: 201 });
  });

  it('that serves a tenant returns at another address only where the pool allows it', async () => {
    const { token } = await protocolPool(fixture, 'served', poolOptions);
    const client = agentField(fixture.url, token);
    const former = urlAt(await freePort());
    await client.register('served', { ...ready, instance_id: 'one', base_url: former });
    const allocation = await allocateNode('served', 'served');
    const moved = { ...ready, instance_id: 'two', base_url: urlAt((await startListener()).port) };
    const refused = await client.register('served', moved);
    expectTheirError(refused, 409);
    expect(refused.body.code).toBe('identity_unproven');
    expect(await fixture.node('served')).toMatchObject({ endpoint: former, allocation_id: allocation });

    const body = { driver: 'external', ...poolOptions, compat: { allow_takeover: true } };
    await fixture.client.call('pool-put', { params: { pool: 'served' }, body });
    expect((await client.register('served', moved)).status).toBe(201);
    expect(await fixture.node('served')).toMatchObject({ endpoint: moved.base_url, allocation_id: allocation });
  });

  it('that an operator re-enrolled returns at any address', async () => {
    const { token } = await protocolPool(fixture, 'renewed', poolOptions);
    const client = agentField(fixture.url, token);
    await client.register('renewed', { ...ready, base_url: urlAt((await startListener()).port) });
    await client.call('POST', '/nodes/renewed/shutdown', {});
    const { node_id } = await fixture.node('renewed');
    await fixture.client.call('node-act', { params: { id: node_id, action: 're-enroll' }, body: { reason: 'moved' } });
    const base_url = urlAt((await startListener()).port);
    expect((await client.register('renewed', { ...ready, base_url })).status).toBe(201);
    expect(await fixture.node('renewed')).toMatchObject({ node_id, endpoint: base_url });
  });

  it('cannot take the name of a machine with our agent', async () => {
    const { token } = await protocolPool(fixture, 'both', poolOptions);
    const machine = await startMachine(fixture.url, { join_token: token, name: 'ours' });
    await machine.beat('ready');
    await machine.beat('stopping');
    const refused = await agentField(fixture.url, token).register('ours', ready);
    expectTheirError(refused, 409);
    expect(await readFinding(machine.node_id)).toMatchObject({ theirs: { because: 'key_unproven' } });
    expect((await machine.beat('ready')).status).toBe(200);
  });
});

describe('a workspace of molecule', () => {
  const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d01';

  const registerWorkspace = (token: string, body: object) =>
    molecule(fixture.url, token, '/registry/register', { body });

  /**
   * A workspace that sent one heartbeat and went silent. Its address does not answer, so no probe
   * counts as a sign of life.
   */
  async function createSilentWorkspace(pool: string, name: string, isServing: boolean) {
    const { token } = await protocolPool(fixture, pool, { ...poolOptions, heartbeat: { stale_after_seconds: 1 } });
    const url = urlAt(await freePort());
    const workspace = await startWorkspace(fixture.url, token, name, { url });
    await workspace.beat();
    await fixture.pace(name, { interval_seconds: 30, stale_seconds: 90 });
    const allocation_id = isServing ? await allocateNode(pool, name) : null;
    const { node_id } = await fixture.node(name);
    expectTheirError(await registerWorkspace(token, { id: name, url }), 401);
    await until('the workspace to be offline', async () => {
      await fixture.tables.query(
        `update heartbeats set stale_seconds = 0.1 where node_instance_id = (select node_instance_id from nodes where node_id = $1)`,
        [node_id],
      );
      return (await fixture.status(name)) === 'offline';
    });
    return { token, url, node_id, allocation_id };
  }

  it('without its token and tenant returns at its address once it is offline', async () => {
    const { token, url, node_id } = await createSilentWorkspace('spaces', id, false);
    const again = await startWorkspace(fixture.url, token, id, { url });
    await again.beat();
    expect(await fixture.node(id)).toMatchObject({ node_id, status: 'ready', endpoint: url });
  });

  it('that serves a tenant returns with a join token only after an operator re-enrolled it', async () => {
    const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d03';
    const { token, url, node_id, allocation_id } = await createSilentWorkspace('serving', name, true);
    for (const claimed of [url, urlAt((await startListener()).port), undefined]) {
      const refused = await registerWorkspace(token, { id: name, ...(claimed && { url: claimed }) });
      expectTheirError(refused, 409);
      expect(refused.body.code).toBe('identity_unproven');
    }
    expect(await readFinding(node_id)).toMatchObject({ theirs: { because: 'key_unproven', protocol: 'molecule' } });
    const act = { params: { id: node_id, action: 're-enroll' as const }, body: { reason: 'its token was lost' } };
    await fixture.client.call('node-act', act);
    const again = await startWorkspace(fixture.url, token, name, { url });
    await again.beat();
    expect(await fixture.node(name)).toMatchObject({ node_id, status: 'ready', allocation_id });
  });

  it('cannot be reported as crashed if it is not a molecule workspace', async () => {
    const { token } = await protocolPool(fixture, 'watched', poolOptions);
    const native = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d02';
    await startMachine(fixture.url, { join_token: token, name: native });
    const failed = `/admin/workspaces/${native}/bootstrap-failed`;
    expectTheirError(
      await molecule(fixture.url, token, failed, { body: { error: 'Kernel panic - not syncing' } }),
      404,
    );
  });
});

describe('a join token', () => {
  const newToken = async (pool: string, body: object) =>
    fixture.client.call('join-token-create', { params: { pool }, body });

  it('is refused as expired, and the verdict on its machines names the token', async () => {
    await protocolPool(fixture, 'expiring', { heartbeat: { stale_after_seconds: 1 } });
    const { token = '', token_id, expires_at } = await newToken('expiring', { ttl_seconds: 4 });
    const client = agentField(fixture.url, token);
    const communication_config = { protocols: ['http'], heartbeat_interval: '500ms' };
    await client.register('loyal', { ...ready, communication_config });
    const refused = await until('the heartbeat to be refused', async () => {
      const answer = await client.beat('loyal', { status: 'ready' });
      return answer.status === 200 ? undefined : answer;
    });
    expectTheirError(refused, 401);
    expect(refused.body).toMatchObject({ code: 'join_token_expired', error: expect.stringContaining(token_id) });
    expect(systemClock.nowMs()).toBeGreaterThanOrEqual(Date.parse(expires_at ?? ''));
    for (const [method, path, body] of [
      ['POST', '/nodes/register', { id: 'loyal', base_url: 'http://127.0.0.1:1' }],
      ['POST', '/nodes/register', { id: 'another' }],
      ['GET', '/nodes', undefined],
      ['GET', '/nodes/loyal', undefined],
      ['POST', '/nodes/loyal/shutdown', {}],
    ] as const)
      expect((await client.call(method, path, body)).body.code, path).toBe('join_token_expired');

    const offline = await until('the node to be offline', async () => {
      await client.beat('loyal', { status: 'ready' });
      const node = await fixture.node('loyal');
      return node.status === 'offline' ? node : undefined;
    });
    expect(offline.verdict).toMatchObject({
      rule: 'liveness',
      owner: 'operator',
      reason: expect.stringContaining('its join token has expired'),
    });
    const explained = await until('the explanation to name the token', async () => {
      await client.beat('loyal', { status: 'ready' });
      const explained = await fixture.client.call('node-explain', { params: { id: offline.node_id } });
      return explained.waiting_for?.includes(token_id) ? explained : undefined;
    });
    expect(explained.waiting_for).toContain('slipway join-token create expiring');
    // With another token the node returns as the same machine.
    const { token: fresh = '' } = await newToken('expiring', { no_expiry: true });
    expect((await agentField(fixture.url, fresh).register('loyal', ready)).status).toBe(201);
    expect((await fixture.node('loyal')).node_id).toBe(offline.node_id);
  });

  it('has no expiry only if that is requested', async () => {
    await protocolPool(fixture, 'lasting', poolOptions);
    expect(await newToken('lasting', { no_expiry: true })).toMatchObject({ expires_at: null });
    expect(await newToken('lasting', {})).toMatchObject({ expires_at: expect.any(String) });
    await expect(newToken('lasting', { no_expiry: true, ttl_seconds: 60 })).rejects.toMatchObject({
      problem: { code: 'invalid_request' },
    });
  });

  it('with limited uses is accepted only for the machines that joined with it', async () => {
    const { token: unlimited } = await protocolPool(fixture, 'counted', poolOptions);
    const { token = '' } = await newToken('counted', { max_uses: 1 });
    const base_url = urlAt(await freePort());
    await agentField(fixture.url, unlimited).register('not-its-own', { ...ready, base_url });
    const client = agentField(fixture.url, token);
    await client.register('its-own', { ...ready, instance_id: 'one', base_url });
    expect((await client.beat('its-own', { status: 'ready' })).status).toBe(200);
    expect((await client.register('its-own', { ...ready, instance_id: 'two', base_url })).status).toBe(201);
    expectTheirError(await client.beat('not-its-own', { status: 'offline' }), 404);
    for (const refused of [
      await client.register('not-its-own', { ...ready, base_url }),
      await client.register('a-third', ready),
      await client.call('GET', '/nodes'),
      await client.call('GET', '/nodes/not-its-own'),
    ])
      expect(refused.body.code).toBe('join_token_spent');
    expect(await fixture.status('not-its-own')).toBe('ready');
  });

  it('that expires soon while machines use it opens a finding', async () => {
    const { token, token_id } = await protocolPool(fixture, 'soon', poolOptions);
    await agentField(fixture.url, token).register('depends', ready);
    const expiring = async () =>
      (await fixture.client.call('drift-list', { query: { kind: 'join-token', pool: 'soon' } })).items[0];
    expect(await expiring()).toBeUndefined();
    await fixture.tables.query(
      `update join_tokens set created_at = now() - interval '23 hours', expires_at = now() + interval '1 hour' where token_id = $1`,
      [token_id],
    );
    // A new token wakes the sweep.
    const { token: next = '' } = await newToken('soon', { no_expiry: true });
    const finding = await until('the finding to open', expiring);
    expect(finding).toMatchObject({
      what: 'join_token_expiring',
      subject: token_id,
      ours: { token_id, expires_at: expect.any(String) },
      theirs: { machines: 1 },
    });
    await agentField(fixture.url, next).register('depends', ready);
    await newToken('soon', {});
    await until('the finding to be closed', async () => (await expiring()) === undefined);
  });
});
