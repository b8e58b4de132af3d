/**
 * Tests how nodes of foreign protocols return: restarts, refused registrations and expired tokens.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { Finding } from '../../../src/contract/supervision/finding.ts';
import { joinRefusals } from '../../../src/lifecycle/findings/refused-beats.ts';
import { httpServer, type LoopbackServer } from '../../../src/probe/testing/loopback-servers.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import {
  agentFieldClient,
  createProtocolPool,
  expectProtocolError,
  type ProtocolFixture,
  postToMolecule,
  protocolFixture,
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
const readyFields = { lifecycle_status: 'ready' };

async function allocateNode(pool: string, name: string): Promise<string> {
  const { allocation } = await fixture.client.call('allocation-create', { body: { pool } });
  return until(`${name} to serve a tenant`, async () =>
    (await fixture.readNode(name)).allocation_id === allocation.allocation_id ? allocation.allocation_id : undefined,
  );
}

async function readFinding(node_id: string): Promise<Finding | undefined> {
  const { items } = await fixture.client.call('drift-list', { query: { kind: 'identity', node_id } });
  return items[0];
}

describe('an AgentField node', () => {
  it('that returns at its former address counts as a restart, even while it serves a tenant', async () => {
    const { token } = await createProtocolPool(fixture, 'same', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    const base_url = urlAt((await startListener()).port);
    await client.register('steady', { ...readyFields, instance_id: 'one', base_url });
    const allocation = await allocateNode('same', 'steady');
    const nodeBefore = await fixture.readNode('steady');
    expect(
      (await client.register('steady', { ...readyFields, instance_id: 'two', base_url: `${base_url}/` })).status,
    ).toBe(201);
    const nodeAfter = await fixture.readNode('steady');
    expect(nodeAfter).toMatchObject({
      node_instance_id: nodeBefore.node_instance_id,
      allocation_id: allocation,
      restarts: 1,
    });
    expect(await readFinding(nodeBefore.node_id)).toBeUndefined();
  });

  it('that returns at a new address counts as a restart if the former address no longer answers', async () => {
    const { token } = await createProtocolPool(fixture, 'moves', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    await client.register('mover', { ...readyFields, instance_id: 'one', base_url: urlAt(await freePort()) });
    const base_url = urlAt((await startListener()).port);
    expect((await client.register('mover', { ...readyFields, instance_id: 'two', base_url })).status).toBe(201);
    expect(await fixture.readNode('mover')).toMatchObject({ endpoint: base_url, restarts: 1, status: 'ready' });
  });

  it('is refused while another process with its name runs, and a finding is opened', async () => {
    const { token } = await createProtocolPool(fixture, 'twice', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    const base_url = urlAt((await startListener()).port);
    await client.register('one-of-two', { ...readyFields, instance_id: 'one', base_url });
    const { node_id } = await fixture.readNode('one-of-two');
    const second = await client.register('one-of-two', {
      instance_id: 'two',
      base_url: urlAt((await startListener()).port),
    });
    expectProtocolError(second, 409);
    expect(second.body.code).toBe('name_taken');
    expect(await fixture.readNode('one-of-two')).toMatchObject({ endpoint: base_url, status: 'ready', restarts: 0 });
    expect(await readFinding(node_id)).toMatchObject({
      what: 'name_contested',
      status: 'open',
      ours: { name: 'one-of-two', endpoint: base_url },
      theirs: { because: 'second_process', protocol: 'agentfield', endpoint: expect.stringContaining('http://') },
      owner_layer: 'operator',
    });
    // The first process still answers probes after its goodbye, so it counts as running.
    await client.call('POST', '/nodes/one-of-two/shutdown', {});
    expectProtocolError(
      await client.register('one-of-two', { instance_id: 'two', base_url: urlAt(await freePort()) }),
      409,
    );
  });

  it('without an address is refused while the former process sends heartbeats, and admitted after its goodbye', async () => {
    const { token } = await createProtocolPool(fixture, 'nowhere', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    await client.register('homeless', { ...readyFields, instance_id: 'one' });
    // A busy server sheds heartbeats.
    await until('an accepted heartbeat', async () => {
      const { status } = await client.beat('homeless', { status: 'ready', instance_id: 'one' });
      return status === 200;
    });
    await fixture.waitForPace('homeless', { stale_seconds: 24 * 3600 });
    expectProtocolError(await client.register('homeless', { instance_id: 'two' }), 409);
    expect((await client.call('POST', '/nodes/homeless/shutdown', {})).status).toBe(202);
    expect(await client.register('homeless', { instance_id: 'two' })).toMatchObject({ status: 201 });
  });

  it('that serves a tenant returns at another address only where the pool allows it', async () => {
    const { token } = await createProtocolPool(fixture, 'served', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    const formerUrl = urlAt(await freePort());
    await client.register('served', { ...readyFields, instance_id: 'one', base_url: formerUrl });
    const allocation = await allocateNode('served', 'served');
    const movedFields = { ...readyFields, instance_id: 'two', base_url: urlAt((await startListener()).port) };
    const refusal = await client.register('served', movedFields);
    expectProtocolError(refusal, 409);
    expect(refusal.body.code).toBe('identity_unproven');
    expect(await fixture.readNode('served')).toMatchObject({ endpoint: formerUrl, allocation_id: allocation });

    const body = { driver: 'external', ...poolOptions, compat: { allow_takeover: true } };
    await fixture.client.call('pool-put', { params: { pool: 'served' }, body });
    expect((await client.register('served', movedFields)).status).toBe(201);
    expect(await fixture.readNode('served')).toMatchObject({
      endpoint: movedFields.base_url,
      allocation_id: allocation,
    });
  });

  it('that an operator re-enrolled returns at any address', async () => {
    const { token } = await createProtocolPool(fixture, 'renewed', poolOptions);
    const client = agentFieldClient(fixture.url, token);
    await client.register('renewed', { ...readyFields, base_url: urlAt((await startListener()).port) });
    await client.call('POST', '/nodes/renewed/shutdown', {});
    const { node_id } = await fixture.readNode('renewed');
    await fixture.client.call('node-act', { params: { id: node_id, action: 're-enroll' }, body: { reason: 'moved' } });
    const base_url = urlAt((await startListener()).port);
    // The node may change between the check and the registration. The answer is then 409.
    await until('the node to return', async () => {
      const { status } = await client.register('renewed', { ...readyFields, base_url });
      return status === 201;
    });
    expect(await fixture.readNode('renewed')).toMatchObject({ node_id, endpoint: base_url });
  });

  it('cannot take the name of a machine that runs our agent', async () => {
    const { token } = await createProtocolPool(fixture, 'both', poolOptions);
    const machine = await startMachine(fixture.url, { join_token: token, name: 'ours' });
    await machine.beat('ready');
    await machine.beat('stopping');
    const refusal = await agentFieldClient(fixture.url, token).register('ours', readyFields);
    expectProtocolError(refusal, 409);
    expect(await readFinding(machine.node_id)).toMatchObject({ theirs: { because: 'key_unproven' } });
    expect((await machine.beat('ready')).status).toBe(200);
  });
});

describe('a workspace of molecule', () => {
  const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d01';

  const registerWorkspace = (token: string, body: object) =>
    postToMolecule(fixture.url, token, '/registry/register', { body });

  /**
   * A workspace that sent one heartbeat and went silent. Its address does not answer, so no probe
   * counts as a sign of life.
   */
  async function createSilentWorkspace(pool: string, name: string, isServing: boolean) {
    const { token } = await createProtocolPool(fixture, pool, {
      ...poolOptions,
      heartbeat: { stale_after_seconds: 1 },
    });
    const url = urlAt(await freePort());
    const workspace = await startWorkspace(fixture.url, token, name, { url });
    await workspace.beat();
    await fixture.waitForPace(name, { interval_seconds: 30, stale_seconds: 90 });
    const allocation_id = isServing ? await allocateNode(pool, name) : null;
    const { node_id } = await fixture.readNode(name);
    expectProtocolError(await registerWorkspace(token, { id: name, url }), 401);
    await until('the workspace to be offline', async () => {
      await fixture.tables.query(
        `update heartbeats
         set stale_seconds = 0.1
         where node_instance_id = (select node_instance_id from nodes where node_id = $1)`,
        [node_id],
      );
      return (await fixture.readStatus(name)) === 'offline';
    });
    return { token, url, node_id, allocation_id };
  }

  it('that lost its token and has no tenant returns at its address once it is offline', async () => {
    const { token, url, node_id } = await createSilentWorkspace('spaces', id, false);
    const returnedWorkspace = await startWorkspace(fixture.url, token, id, { url });
    await returnedWorkspace.beat();
    expect(await fixture.readNode(id)).toMatchObject({ node_id, status: 'ready', endpoint: url });
  });

  it('that serves a tenant returns with a join token only after an operator re-enrolled it', async () => {
    const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d03';
    const { token, url, node_id, allocation_id } = await createSilentWorkspace('serving', name, true);
    for (const endpoint of [url, urlAt((await startListener()).port), undefined]) {
      const refusal = await registerWorkspace(token, { id: name, ...(endpoint && { url: endpoint }) });
      expectProtocolError(refusal, 409);
      expect(refusal.body.code).toBe('identity_unproven');
    }
    expect(await readFinding(node_id)).toMatchObject({ theirs: { because: 'key_unproven', protocol: 'molecule' } });
    const act = { params: { id: node_id, action: 're-enroll' as const }, body: { reason: 'its token was lost' } };
    await fixture.client.call('node-act', act);
    const returnedWorkspace = await startWorkspace(fixture.url, token, name, { url });
    await returnedWorkspace.beat();
    expect(await fixture.readNode(name)).toMatchObject({ node_id, status: 'ready', allocation_id });
  });

  it('is the only kind of machine that a crash report may name', async () => {
    const { token } = await createProtocolPool(fixture, 'watched', poolOptions);
    const native = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7d02';
    await startMachine(fixture.url, { join_token: token, name: native });
    const crashReportPath = `/admin/workspaces/${native}/bootstrap-failed`;
    expectProtocolError(
      await postToMolecule(fixture.url, token, crashReportPath, { body: { error: 'Kernel panic - not syncing' } }),
      404,
    );
  });
});

describe('a join token', () => {
  const createJoinToken = async (pool: string, body: object) =>
    fixture.client.call('join-token-create', { params: { pool }, body });

  it('is refused after its expiry, which the verdict on its machines and their explanation name', async () => {
    // Long enough for the refusal to be recorded before the verdict, also on a slow host.
    await createProtocolPool(fixture, 'expiring', { heartbeat: { stale_after_seconds: 4 } });
    const { token = '', token_id, expires_at } = await createJoinToken('expiring', { ttl_seconds: 4 });
    const client = agentFieldClient(fixture.url, token);
    const communication_config = { protocols: ['http'], heartbeat_interval: '500ms' };
    await client.register('loyal', { ...readyFields, communication_config });
    const refusal = await until('the heartbeat to be refused', async () => {
      const answer = await client.beat('loyal', { status: 'ready' });
      return answer.status === 200 ? undefined : answer;
    });
    expectProtocolError(refusal, 401);
    expect(refusal.body).toMatchObject({ code: 'join_token_expired', error: expect.stringContaining(token_id) });
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
      const node = await fixture.readNode('loyal');
      return node.status === 'offline' ? node : undefined;
    });
    expect(offline.verdict).toMatchObject({
      rule: 'liveness',
      owner: 'operator',
      reason: expect.stringContaining(joinRefusals.join_token_expired.in_short),
    });
    const explanation = await until('the explanation to name the token', async () => {
      await client.beat('loyal', { status: 'ready' });
      const current = await fixture.client.call('node-explain', { params: { id: offline.node_id } });
      return current.waiting_for?.includes(token_id) ? current : undefined;
    });
    expect(explanation.waiting_for).toContain('slipway join-token create expiring');
    // With another token the node returns as the same machine.
    const { token: fresh = '' } = await createJoinToken('expiring', { no_expiry: true });
    expect((await agentFieldClient(fixture.url, fresh).register('loyal', readyFields)).status).toBe(201);
    expect((await fixture.readNode('loyal')).node_id).toBe(offline.node_id);
  });

  it('has no expiry only if the request says so', async () => {
    await createProtocolPool(fixture, 'lasting', poolOptions);
    expect(await createJoinToken('lasting', { no_expiry: true })).toMatchObject({ expires_at: null });
    expect(await createJoinToken('lasting', {})).toMatchObject({ expires_at: expect.any(String) });
    await expect(createJoinToken('lasting', { no_expiry: true, ttl_seconds: 60 })).rejects.toMatchObject({
      problem: { code: 'invalid_request' },
    });
  });

  it('with limited uses is accepted only for the machines that joined with it', async () => {
    const { token: unlimited } = await createProtocolPool(fixture, 'counted', poolOptions);
    const { token = '' } = await createJoinToken('counted', { max_uses: 1 });
    const base_url = urlAt(await freePort());
    await agentFieldClient(fixture.url, unlimited).register('not-its-own', { ...readyFields, base_url });
    const client = agentFieldClient(fixture.url, token);
    await client.register('its-own', { ...readyFields, instance_id: 'one', base_url });
    expect((await client.beat('its-own', { status: 'ready' })).status).toBe(200);
    expect((await client.register('its-own', { ...readyFields, instance_id: 'two', base_url })).status).toBe(201);
    expectProtocolError(await client.beat('not-its-own', { status: 'offline' }), 404);
    for (const refused of [
      await client.register('not-its-own', { ...readyFields, base_url }),
      await client.register('a-third', readyFields),
      await client.call('GET', '/nodes'),
      await client.call('GET', '/nodes/not-its-own'),
    ])
      expect(refused.body.code).toBe('join_token_spent');
    expect(await fixture.readStatus('not-its-own')).toBe('ready');
  });

  it('that expires soon while machines use it opens a finding', async () => {
    const { token, token_id } = await createProtocolPool(fixture, 'soon', poolOptions);
    await agentFieldClient(fixture.url, token).register('depends', readyFields);
    const readExpiryFinding = async () =>
      (await fixture.client.call('drift-list', { query: { kind: 'join-token', pool: 'soon' } })).items[0];
    expect(await readExpiryFinding()).toBeUndefined();
    await fixture.tables.query(
      `update join_tokens
       set created_at = now() - interval '23 hours', expires_at = now() + interval '1 hour'
       where token_id = $1`,
      [token_id],
    );
    // A new token wakes the sweep.
    const { token: next = '' } = await createJoinToken('soon', { no_expiry: true });
    const finding = await until('the finding to open', readExpiryFinding);
    expect(finding).toMatchObject({
      what: 'join_token_expiring',
      subject: token_id,
      ours: { token_id, expires_at: expect.any(String) },
      theirs: { machines: 1 },
    });
    await agentFieldClient(fixture.url, next).register('depends', readyFields);
    await createJoinToken('soon', {});
    await until('the finding to be closed', async () => (await readExpiryFinding()) === undefined);
  });
});
