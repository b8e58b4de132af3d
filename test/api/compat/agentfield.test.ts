/**
 * Tests the AgentField protocol. Its nodes get answers in their own format, and their reports have
 * the same effect as reports of our own agents.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/calls.ts';
import {
  type AgentFieldClient,
  agentFieldClient,
  createProtocolPool,
  expectProtocolError,
  nodeRegistration,
  type ProtocolFixture,
  protocolFixture,
} from '../support/compat-clients.ts';
import { startMachine } from '../support/machine.ts';

const base_url = 'http://127.0.0.1:8001';
let fixture: ProtocolFixture;
let fleet: AgentFieldClient;
let token: string;
let otherToken: string;

beforeAll(async () => {
  fixture = await protocolFixture();
  ({ join_token: token, other_join_token: otherToken } = fixture);
  fleet = agentFieldClient(fixture.url, token);
});
afterAll(() => fixture.stop());

it('registers, sends heartbeats, reads nodes and shuts down in the AgentField format', async () => {
  const registration = await fleet.register('scout', { lifecycle_status: 'starting', base_url });
  expect(registration.status).toBe(201);
  expect(registration.body).toMatchObject({ success: true, message: expect.any(String), node_id: 'scout' });
  const beatReply = await fleet.beat('scout');
  expect(beatReply.status).toBe(200);
  expect(beatReply.body).toMatchObject({ success: true, message: expect.any(String), timestamp: expect.any(String) });
  await fleet.beat('scout', { status: 'starting', timestamp: '2030-01-01T00:00:00' });
  expect(await fixture.readNode('scout')).toMatchObject({
    status: 'starting',
    pool: 'fleet',
    endpoint: base_url,
    reported: { status: 'starting' },
  });

  await fleet.beat('scout', { status: 'ready', health_score: 97 });
  const readyNode = await until('the heartbeat to be stored', async () => {
    const node = await fixture.readNode('scout');
    return node.reported?.health_score === 97 ? node : undefined;
  });
  expect(readyNode.status).toBe('ready');
  const scout = { id: 'scout', lifecycle_status: 'ready', health_status: 'active', base_url };
  expect((await fleet.call('GET', '/nodes/scout')).body).toMatchObject(scout);
  expect((await fleet.call('GET', '/nodes/scout/status')).body).toMatchObject({
    success: true,
    node_id: 'scout',
    status: { lifecycle_status: 'ready' },
  });
  expect((await fleet.call('GET', '/nodes')).body).toMatchObject({ nodes: [scout], count: 1, filters: {} });

  await fleet.beat('scout', { status: 'degraded' });
  expect(await fixture.readStatus('scout')).toBe('degraded');
  const lifecycleReply = await fleet.call('POST', '/nodes/scout/lifecycle/status', { lifecycle_status: 'ready' });
  expect(lifecycleReply.body).toMatchObject({
    success: true,
    lifecycle_status: 'ready',
    timestamp: expect.any(String),
  });
  expect((await fleet.call('POST', '/nodes/scout/actions/ack', { action_id: 'a', status: 'done' })).status).toBe(200);
  const goodbye = await fleet.call('POST', '/nodes/scout/shutdown', { reason: 'signal' });
  expect(goodbye.status).toBe(202);
  expect(await fixture.readNode('scout')).toMatchObject({ status: 'offline', verdict: { rule: 'goodbye' } });
  expect((await fleet.call('GET', '/nodes/scout')).body).toMatchObject({
    lifecycle_status: 'offline',
    health_status: 'inactive',
  });
  await fleet.register('scout');
  expect(await fixture.readStatus('scout'), 'the status before it reports ready').toBe('starting');
  await fleet.beat('scout', { status: 'ready' });
  expect(await fixture.readStatus('scout')).toBe('ready');
});

it('accepts a join token as bearer, as X-API-Key or in the address, and nothing else', async () => {
  const body = nodeRegistration('keyed');
  const nodesPath = '/compat/agentfield/api/v1/nodes';
  expect((await send(fixture.url, 'POST', nodesPath, { body, bearer: token })).status).toBe(201);
  const beat = (sent: object, path = nodesPath) => send(fixture.url, 'POST', `${path}/keyed/heartbeat`, sent);
  expect((await beat({ headers: { 'x-api-key': token } })).status).toBe(200);
  expect((await beat({}, `/compat/agentfield/${token}/api/v1/nodes`)).status).toBe(200);
  expectProtocolError(await beat({}), 401);
  expectProtocolError(await beat({ bearer: 'swj_wrong' }), 401);
  expectProtocolError(await beat({ bearer: fixture.token }), 401);
  expectProtocolError(await beat({ headers: { 'x-api-key': 'swj_wrong' } }), 401);
  expectProtocolError(await beat({}, '/compat/agentfield/swj_wrong/api/v1/nodes'), 401);
  expectProtocolError(await beat({ bearer: token, headers: { origin: 'https://elsewhere.example' } }), 403);
});

it('gives a token access only to nodes of its pool', async () => {
  await fleet.register('guarded', { lifecycle_status: 'ready' });
  const otherClient = agentFieldClient(fixture.url, otherToken);
  for (const [method, path, body] of [
    ['POST', '/nodes/guarded/heartbeat', { status: 'offline' }],
    ['PATCH', '/nodes/guarded/status', { phase: 'offline' }],
    ['POST', '/nodes/guarded/lifecycle/status', { lifecycle_status: 'offline' }],
    ['POST', '/nodes/guarded/actions/ack', {}],
    ['POST', '/nodes/guarded/shutdown', {}],
    ['GET', '/nodes/guarded', undefined],
    ['GET', '/nodes/guarded/status', undefined],
  ] as const)
    expectProtocolError(await otherClient.call(method, path, body), 404, path);
  expect(await fixture.readStatus('guarded')).toBe('ready');
  expect((await otherClient.call('GET', '/nodes')).body).toMatchObject({ nodes: [], count: 0 });
  // The same name in another pool is another node.
  expect((await otherClient.register('guarded')).status).toBe(201);
  expect((await fleet.call('GET', '/nodes/guarded')).body).toMatchObject({ lifecycle_status: 'ready' });
});

it('refuses calls about a machine that has its own credential', async () => {
  const machine = await startMachine(fixture.url, { join_token: token, name: 'own-agent' });
  await machine.beat('ready');
  expectProtocolError(await fleet.call('POST', '/nodes/own-agent/shutdown', {}), 404);
  expectProtocolError(await fleet.register('own-agent'), 409);
  expect(await fixture.readStatus('own-agent')).toBe('ready');
});

it('uses the heartbeat interval that the node announces, not the interval of the pool', async () => {
  const { token: paced } = await createProtocolPool(fixture, 'paced', {
    heartbeat: { interval_seconds: 60, stale_after_seconds: 5 },
  });
  const client = agentFieldClient(fixture.url, paced);
  await client.register('announces');
  await fixture.waitForPace('announces', { interval_seconds: 2, stale_seconds: 6 });
  await client.register('says-nothing', { communication_config: null });
  await fixture.waitForPace('says-nothing', { interval_seconds: 60, stale_seconds: 180 });
  await client.register('leases', { communication_config: { protocols: null, heartbeat_interval: '1m30s' } });
  await fixture.waitForPace('leases', { interval_seconds: 90, stale_seconds: 270 });
  const lease = await client.call('PATCH', '/nodes/leases/status', { phase: 'ready', health_score: 100 });
  expect(lease.body).toMatchObject({ lease_seconds: 300, next_lease_renewal: expect.any(String) });
  await fixture.waitForPace('leases', { interval_seconds: 90, stale_seconds: 300 });
  expect(await fixture.readStatus('leases')).toBe('ready');
});

it('accepts one process per node: a new process must register first, and counts as a restart', async () => {
  await fleet.register('twin', { instance_id: 'first', lifecycle_status: 'ready', base_url });
  expect((await fleet.beat('twin', { status: 'ready', instance_id: 'first' })).status).toBe(200);
  expectProtocolError(await fleet.beat('twin', { status: 'degraded', instance_id: 'second' }), 404);
  const nodeBefore = await fixture.readNode('twin');
  expect(nodeBefore.status).toBe('ready');
  await fleet.register('twin', { instance_id: 'second', base_url });
  expect((await fleet.beat('twin', { status: 'ready', instance_id: 'second' })).status).toBe(200);
  expectProtocolError(await fleet.beat('twin', { status: 'offline', instance_id: 'first' }), 404);
  const { node_instance_id, registered_at, restarts, status } = await fixture.readNode('twin');
  expect([node_instance_id, registered_at, restarts, status]).toEqual([
    nodeBefore.node_instance_id,
    nodeBefore.registered_at,
    nodeBefore.restarts + 1,
    'ready',
  ]);
  // After the former process shut down, another process is a new instance.
  await fleet.call('POST', '/nodes/twin/shutdown', {});
  await fleet.register('twin', { instance_id: 'third', lifecycle_status: 'starting', base_url });
  const thirdInstance = await fixture.readNode('twin');
  expect(thirdInstance.status).toBe('starting');
  expect(thirdInstance.node_instance_id).not.toBe(nodeBefore.node_instance_id);
});

it('retires a node when its tenant releases it; a later registration creates another node', async () => {
  const { token: leased } = await createProtocolPool(fixture, 'leased');
  const client = agentFieldClient(fixture.url, leased);
  await client.register('lent', { lifecycle_status: 'ready' });
  const { node_id } = await fixture.readNode('lent');
  const { allocation } = await fixture.client.call('allocation-create', { body: { pool: 'leased' } });
  const params = { id: allocation.allocation_id };
  const waitForAllocation = (status: string) =>
    until(`the allocation to be ${status}`, async () => {
      const { status: now } = await fixture.client.call('allocation-get', { params });
      return now === status;
    });
  await waitForAllocation('active');
  await fixture.client.call('allocation-release', { params, body: {} });
  await waitForAllocation('released');
  // The replica reads the retirement from the evidence a moment later.
  const refusal = await until('the heartbeat to be refused', async () => {
    const answer = await client.beat('lent', { status: 'ready' });
    return answer.status === 200 ? undefined : answer;
  });
  expectProtocolError(refusal, 404);
  await client.register('lent', { lifecycle_status: 'ready' });
  expect(await fixture.readNode('lent')).toMatchObject({ status: 'ready', allocation_id: null });
  expect((await fixture.readNode('lent')).node_id).not.toBe(node_id);
});

it('answers with the id of a node, even if the id is not a valid name', async () => {
  const id = 'Team:Scout/1';
  expect((await fleet.register(id)).body).toMatchObject({ node_id: id });
  expect((await fleet.beat(id)).status).toBe(200);
  expect((await fleet.call('GET', `/nodes/${encodeURIComponent(id)}`)).body).toMatchObject({ id });
  expect((await fleet.register(id)).status).toBe(201);
  const { items } = await fixture.client.call('node-list', { query: { q: 'team-scout-1-' } });
  expect(items.map(({ labels, restarts }) => [labels.client_id, restarts])).toEqual([[id, 1]]);
});

it('stores unknown fields, redacted and within limits', async () => {
  const fields = { shiny: { new: true }, api_key: 'hush-hush-hush', novel: 'x'.repeat(200_000) };
  expect((await fleet.register('chatty', fields)).status).toBe(201);
  const { node_id } = await fixture.readNode('chatty');
  const registrationFact = await fixture.waitForFact(node_id, 'client.registered');
  expect(registrationFact.data.said).toMatchObject({ shiny: { new: true }, left_out: ['novel (200002 bytes)'] });
  expect(JSON.stringify(registrationFact)).not.toContain('hush');
  await fleet.beat('chatty', { status: 'moonlit', health_score: 1000, mood: 'blue', password: 'hush-hush-hush' });
  const fact = await fixture.waitForFact(node_id, 'client.said');
  expect(fact.data.said).toMatchObject({ mood: 'blue' });
  expect(JSON.stringify(fact)).not.toContain('hush');
  await until('the unknown values in the report', async () => {
    const { reported } = await fixture.readNode('chatty');
    const text = JSON.stringify(reported);
    return text.includes('moonlit') && text.includes('1000') && !text.includes('hush');
  });
});

const badBodies: [string, string, string, unknown][] = [
  ['no body', 'POST', '/nodes/register', undefined],
  ['a list', 'POST', '/nodes/register', []],
  ['no id', 'POST', '/nodes/register', { ...nodeRegistration('x'), id: undefined }],
  ['a number as id', 'POST', '/nodes', nodeRegistration('x', { id: 7 })],
  ['an id with a line break', 'POST', '/nodes', nodeRegistration('two\nlines')],
  ['an invalid address', 'POST', '/nodes', nodeRegistration('x', { base_url: 'file:///etc/passwd' })],
  ['an address with a password', 'POST', '/nodes', nodeRegistration('x', { base_url: 'http://a:b@host' })],
  ['text as reasoners', 'POST', '/nodes', nodeRegistration('x', { reasoners: 'all' })],
  ['a list as metadata', 'POST', '/nodes', nodeRegistration('x', { metadata: [] })],
  [
    'a number as interval',
    'POST',
    '/nodes',
    nodeRegistration('x', { communication_config: { heartbeat_interval: 2 } }),
  ],
  ['NUL in an unknown field', 'POST', '/nodes', nodeRegistration('x', { novel: 'a\0b' })],
  ['a list as heartbeat', 'POST', '/nodes/scout/heartbeat', []],
  ['a number as status', 'POST', '/nodes/scout/heartbeat', { status: 1 }],
  ['text as score', 'POST', '/nodes/scout/heartbeat', { health_score: 'high' }],
  ['text as lists of servers', 'POST', '/nodes/scout/heartbeat', { mcp_servers: 'none' }],
  ['a number as phase', 'PATCH', '/nodes/scout/status', { phase: 3 }],
  ['no lifecycle status', 'POST', '/nodes/scout/lifecycle/status', {}],
  ['text as acknowledgement', 'POST', '/nodes/scout/actions/ack', 'yes'],
  ['text as goodbye', 'POST', '/nodes/scout/shutdown', 'bye'],
];

it('refuses fields of the wrong type, without a change', async () => {
  // A sweep may write during a round. A change by these calls would show in every round.
  await until('a round in which nothing changes', async () => {
    const snapshotBefore = await fixture.tables.snapshot();
    for (const [what, method, path, body] of badBodies)
      expectProtocolError(await fleet.call(method, path, body), 400, what);
    return isDeepStrictEqual(await fixture.tables.snapshot(), snapshotBefore);
  });
});

it('makes a node ready once its address answers a probe, if the pool allows the probe', async () => {
  const { port } = await httpServer((_, reply) => reply.end('well'));
  const { token: probed } = await createProtocolPool(fixture, 'probed', { probe: { allow_private: true } });
  await agentFieldClient(fixture.url, probed).register('answers', { base_url: `http://127.0.0.1:${port}` });
  const readyNode = await until('the node to be ready', async () => {
    const node = await fixture.readNode('answers');
    return node.status === 'ready' ? node : undefined;
  });
  expect(readyNode).toMatchObject({ verdict: { rule: 'probe-promotes' }, reported: { status: 'starting' } });
});

it('answers unknown calls with 404 in the AgentField format', async () => {
  for (const [method, path] of [
    ['POST', '/executions/e1/status'],
    ['POST', '/did/register'],
    ['GET', '/memory/events/ws'],
    ['POST', '/workflow/executions/events'],
    ['PUT', '/nodes/scout/health'],
    ['DELETE', '/nodes/scout'],
    ['PATCH', '/nodes'],
  ] as const) {
    expectProtocolError(await fleet.call(method, path, method === 'GET' ? undefined : { a: 1 }), 404, path);
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    expectProtocolError(await fleet.call(method, path, method === 'GET' ? undefined : {}, { headers }), 404, path);
  }
  for (const path of ['', '/', '/nothing', '/swj_x', '/swj_x/api/v2/nodes'])
    expectProtocolError(await send(fixture.url, 'GET', `/compat/agentfield${path}`), 404, path);
  expectProtocolError(await fleet.call('GET', '/nodes/%ZZ'), 400);
  expectProtocolError(await fleet.beat('nobody'), 404);
  expectProtocolError(await fleet.call('POST', '/nodes/register', { novel: 'x'.repeat(2 ** 20) }), 413);
  const malformedRequest = { raw: '{', headers: { 'content-type': 'application/json' } };
  expectProtocolError(await fleet.call('POST', '/nodes/register', undefined, malformedRequest), 400);
  const text = { raw: 'x', headers: { 'content-type': 'text/html' } };
  expectProtocolError(await fleet.call('POST', '/nodes/scout/heartbeat', undefined, text), 415);
});
