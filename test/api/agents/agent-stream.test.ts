/**
 * The streams of agents and relays have the same checks and answers as HTTP. They limit what a
 * client may send, and are closed when an instance is fenced.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { moment, systemClock } from '../../../src/base/clock.ts';
import type { SignedTask } from '../../../src/contract/agent/agent.ts';
import { fenceInstance } from '../../../src/store/agents/instances.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import type { Machine } from '../support/machine.ts';
import { openStream, requestRefusedStream, type StreamClient } from '../support/stream-client.ts';
import { externalPool, externalServer, readyMachine, reenroll } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
let machine: Machine;
let stream: StreamClient;
beforeAll(async () => {
  server = await externalServer();
  machine = await readyMachine(server, 'streaming');
  stream = await openStream(server.url, machine.credential);
});
afterAll(() => server.stop());

let lastSeq = 0;
/** Sends a frame with a sequence number and waits for its answer. */
function request(on: StreamClient, frame: object) {
  const seq = ++lastSeq;
  on.send({ seq, ...frame });
  return on.waitForFrame(`the answer to ${JSON.stringify(frame)}`, (each) => each.seq === seq);
}

const readBrokenConnections = () =>
  server.tables.query<{ node_id: string | null; data: Record<string, unknown>; layer: string }>(
    "select node_id, data, layer from evidence where kind = 'connection.broken' order by seq",
  );

const createRelayToken = async (pool = externalPool) => {
  const body = { name: `relay-of-${pool}`, role: 'relay' as const, pool };
  return (await server.client.call('token-create', { body })) as { token: string; token_id: string };
};

describe('a refused upgrade is answered with an HTTP problem', () => {
  it.each([
    ['no credential', {}, 401, 'token_missing'],
    ['an unknown credential', { authorization: 'Bearer swc_wrong' }, 401, 'credential_unknown'],
    ['an unknown relay token', { authorization: 'Bearer swr_wrong' }, 401, 'token_unknown'],
    ['a page of another origin', { origin: 'https://elsewhere.example' }, 403, 'origin_refused'],
  ])('for %s', async (_, headers, status, code) => {
    expect(await requestRefusedStream(server.url, headers)).toMatchObject({ status, body: { status, code } });
  });

  it('for an operator token, a fenced instance, and a request without an upgrade', async () => {
    expect(await requestRefusedStream(server.url, { authorization: `Bearer ${server.token}` })).toMatchObject({
      body: { code: 'credential_unknown' },
    });
    const replacedMachine = await readyMachine(server, 'replaced');
    await replacedMachine.beat('stopping');
    await reenroll(server, replacedMachine);
    // The replica caches credentials, so it refuses the instance only a moment later.
    const refusal = await until('the former instance to be refused', () =>
      requestRefusedStream(server.url, { authorization: `Bearer ${replacedMachine.credential}` }).catch(
        () => undefined,
      ),
    );
    expect(refusal).toMatchObject({ body: { code: 'instance_fenced' } });
    const plainReply = await callRoute(server.url, 'agent-stream', {}, { bearer: machine.credential });
    expectProblem(plainReply, 'upgrade_required');
    expect(plainReply.headers.get('sec-websocket-version')).toBe('13');
  });

  it('except for upgrades to other protocols, which are served as plain HTTP', async () => {
    const headers = { connection: 'upgrade', upgrade: 'h2c' };
    const { request } = await import('node:http');
    const status = await new Promise((resolve, reject) =>
      request(`${server.url}/healthz`, { headers }, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end(),
    );
    expect(status).toBe(200);
  });
});

/** Reads the evidence of this machine only, because evidence of others may arrive during a test. */
const readState = async () => ({
  ...(await server.tables.snapshot()),
  evidence: await server.tables.query('select kind, summary from evidence where node_id = $1 order by seq', [
    machine.node_id,
  ]),
});

describe('an agent', () => {
  it('is answered as over HTTP, and a status change is stored before the answer', async () => {
    expect(await request(stream, {})).toMatchObject({
      node_status: 'ready',
      tasks_waiting: 0,
      heartbeat_interval_seconds: expect.any(Number),
    });
    expect(await request(stream, { status: 'degraded' })).toMatchObject({ node_status: 'degraded' });
    const [row] = await server.tables.query('select status from nodes where node_id = $1', [machine.node_id]);
    expect(row).toEqual({ status: 'degraded' });
    expect(await request(stream, { status: 'ready', error_rate: 0 })).toMatchObject({ node_status: 'ready' });
  });

  it.each([
    ['an unknown status', { status: 'splendid' }, 'claim_status_unknown'],
    ['a score above the maximum', { health_score: 101 }, 'claim_out_of_range'],
    ['an unknown key', { mood: 'fine' }, 'invalid_request'],
    ['another instance', { node_instance_id: 'inst_other' }, 'credential_mismatch'],
    ['a batch', { beats: [{ credential: 'swc_x' }] }, 'invalid_request'],
  ])('with %s gets a problem, and nothing changes', async (_, frame, code) => {
    const stateBefore = await readState();
    expect(await request(stream, frame)).toMatchObject({ problem: { code } });
    expect(await readState()).toEqual(stateBefore);
  });

  it('stays connected after a frame that is not JSON', async () => {
    stream.send('{"status": ');
    await stream.waitForFrame(
      'the problem',
      ({ problem }) => (problem as { code?: string })?.code === 'malformed_json',
    );
    expect(await request(stream, {})).toMatchObject({ node_status: 'ready' });
  });

  it('gets a leased and signed task when it asks for tasks', async () => {
    const { task_id } = await server.client.call('node-ping', { params: { id: machine.node_id }, body: {} });
    await until('the answer to report a waiting task', async () => (await request(stream, {})).tasks_waiting === 1);
    expect(stream.frames.filter(({ task }) => task)).toEqual([]);
    stream.send({ tasks: true });
    const { task } = (await stream.waitForFrame('the task', (each) => each.task !== undefined)) as { task: SignedTask };
    expect(task).toMatchObject({ task_id, type: 'ping', signature: expect.any(String) });
    const [row] = await server.tables.query('select status from tasks where task_id = $1', [task_id]);
    expect(row).toEqual({ status: 'leased' });
    const result = { nonce: task.params.nonce };
    await machine.call('agent-task-result', { params: { id: task_id }, body: { status: 'succeeded', result } });

    stream.send({ tasks: true });
    const laterTask = await server.client.call('node-ping', { params: { id: machine.node_id }, body: {} });
    await stream.waitForFrame('the second task', (each) => (each.task as SignedTask)?.task_id === laterTask.task_id);
  });

  it('has one stream: a new stream closes the old one', async () => {
    const newerStream = await openStream(server.url, machine.credential);
    expect(await stream.closed).toEqual({ code: 4410, reason: 'stream_replaced' });
    expect(await request(newerStream, {})).toMatchObject({ node_status: 'ready' });
    stream = newerStream;
  });

  it('loses its stream after a binary or oversized frame', async () => {
    const [large, binary] = await Promise.all(
      ['large', 'binary'].map(async (name) =>
        openStream(server.url, (await readyMachine(server, `sends-${name}`)).credential),
      ),
    );
    large?.send({ message: 'x'.repeat(64 * 1024) });
    binary?.socket.send(Buffer.from('{}'), { binary: true });
    expect(await large?.closed).toMatchObject({ code: 1009 });
    expect(await binary?.closed).toEqual({ code: 1003, reason: 'unsupported_media_type' });
  });

  it('gets one pong per ping, and loses its stream after a flood of pings', async () => {
    const pinging = await openStream(server.url, (await readyMachine(server, 'pinging')).credential);
    const pongs: string[] = [];
    pinging.socket.on('pong', (data) => pongs.push(String(data)));
    pinging.socket.ping('one');
    pinging.socket.ping('two');
    await request(pinging, {});
    expect(pongs).toEqual(['one', 'two']);
    // The pings are sent together, so they arrive faster than the server can send pongs.
    for (let pings = 0; pings < 20_000; pings++) pinging.socket.ping();
    expect(await pinging.closed).toEqual({ code: 1013, reason: 'stream_overrun' });
    expect(pongs.length).toBeLessThan(20_000);
  });

  it('that disconnects without a close frame is recorded once and keeps its status; a proper close is not recorded', async () => {
    const closingMachine = await readyMachine(server, 'leaving');
    const leavingStream = await openStream(server.url, closingMachine.credential);
    leavingStream.socket.close(1000);
    await leavingStream.closed;
    const disconnectingMachine = await readyMachine(server, 'breaking');
    const readBroken = async () =>
      (await readBrokenConnections()).filter(({ node_id }) => node_id === disconnectingMachine.node_id);
    for (let times = 0; times < 3; times++) {
      const each = await openStream(server.url, disconnectingMachine.credential);
      expect(await request(each, {})).toMatchObject({ node_status: 'ready' });
      each.socket.terminate();
      await until('the server to notice the disconnect', async () => {
        const metrics = await callRoute(server.url, 'metrics-get', {}, { bearer: server.token });
        return /slipway_agent_streams\{of="agent"\} 1\n/.test(metrics.text);
      });
    }
    await until('the evidence', async () => (await readBroken()).length > 0);
    expect(await readBroken()).toMatchObject([
      { layer: 'transport', data: { of: 'agent', why: 'it ended without a goodbye' } },
    ]);
    expect((await disconnectingMachine.beat()).body).toMatchObject({ node_status: 'ready' });
    expect((await readBrokenConnections()).filter(({ node_id }) => node_id === closingMachine.node_id)).toEqual([]);
  });

  it('loses its stream with a problem when it is fenced or its credential is replaced', async () => {
    const replacedMachine = await readyMachine(server, 'fenced-while-connected');
    const stream = await openStream(server.url, replacedMachine.credential);
    await replacedMachine.beat('stopping');
    await reenroll(server, replacedMachine);
    expect(await stream.closed).toEqual({ code: 4409, reason: 'instance_fenced' });
    expect(stream.frames.at(-1)).toMatchObject({ problem: { code: 'instance_fenced', status: 409 } });

    const rotating = await readyMachine(server, 'rotating');
    const formerStream = await openStream(server.url, rotating.credential);
    const { body } = await rotating.call('agent-credential-rotate');
    const rotatedStream = await openStream(server.url, String(body.credential));
    // The replica reads evidence in order, so it has read the rotation once it delivers this task.
    rotatedStream.send({ tasks: true });
    await server.client.call('node-ping', { params: { id: rotating.node_id }, body: {} });
    await rotatedStream.waitForFrame('the task', (each) => each.task !== undefined);
    expect(await request(rotatedStream, {})).toMatchObject({ node_status: 'ready' });
    expect([4401, 4410]).toContain((await formerStream.closed).code);
  });
});

it('closes the stream with a problem when another replica fences the instance', async () => {
  const machine = await readyMachine(server, 'fenced-elsewhere');
  const stream = await openStream(server.url, machine.credential);
  const elsewhere = openDatabase({ url: server.database_url });
  const fence = { reason: 'given up elsewhere', revoke: true, node_id: machine.node_id as never };
  await elsewhere.transaction((tx) =>
    fenceInstance(tx, machine.node_instance_id as never, fence, moment(systemClock.nowMs())),
  );
  await elsewhere.close();
  expect(await stream.closed).toEqual({ code: 4409, reason: 'instance_fenced' });
  expect(stream.frames.at(-1)).toMatchObject({ problem: { detail: expect.stringContaining('given up elsewhere') } });
});

describe('a relay', () => {
  it('may forward only heartbeats with the credential of a machine in its pool', async () => {
    await server.client.call('pool-put', { params: { pool: 'elsewhere' }, body: { driver: 'external' } });
    const [own, other] = [await createRelayToken(), await createRelayToken('elsewhere')];
    const beats = [
      { node_instance_id: machine.node_instance_id, status: 'ready' },
      { credential: machine.credential },
      { node_instance_id: 'inst_none' },
      {},
    ];
    const acceptedResult = { node_status: 'ready' };
    const missingCredential = { code: 'beat_credential_missing', status: 401 };
    for (const [token, expected] of [
      [own.token, [missingCredential, acceptedResult, missingCredential, missingCredential]],
      [other.token, [missingCredential, { code: 'scope_insufficient' }, missingCredential, missingCredential]],
    ] as const) {
      const relayStream = await openStream(server.url, token);
      expect(await request(relayStream, { beats })).toMatchObject({ results: expected });
      const batchReply = await callRoute(server.url, 'agent-heartbeats', { body: { beats } }, { bearer: token });
      expect(batchReply.body).toMatchObject({ results: expected });
      relayStream.socket.close(1000);
    }
    const withoutToken = await callRoute(server.url, 'agent-heartbeats', { body: { beats } });
    expect(withoutToken.body.results).toMatchObject([
      missingCredential,
      acceptedResult,
      missingCredential,
      missingCredential,
    ]);
  });

  it('gets a problem for an invalid batch, and no heartbeat of the batch is accepted', async () => {
    const relayStream = await openStream(server.url, (await createRelayToken()).token);
    const snapshotBefore = await server.tables.snapshot();
    const invalidBatch = [{ credential: machine.credential, status: 'stopping' }, { status: 'splendid' }];
    expect(await request(relayStream, { beats: invalidBatch })).toMatchObject({
      problem: { code: 'claim_status_unknown' },
    });
    expect(await request(relayStream, { status: 'ready' })).toMatchObject({ problem: { code: 'invalid_request' } });
    expect(await server.tables.snapshot()).toEqual(snapshotBefore);
    relayStream.socket.close(1000);
  });

  it('loses its stream with a problem when its token is revoked', async () => {
    const { token, token_id } = await createRelayToken();
    const relayStream = await openStream(server.url, token);
    await server.client.call('token-delete', { params: { id: token_id } });
    expect(await relayStream.closed).toEqual({ code: 4401, reason: 'token_unknown' });
    const batchReply = await callRoute(server.url, 'agent-heartbeats', { body: { beats: [{}] } }, { bearer: token });
    expectProblem(batchReply, 'token_unknown');
  });

  it.each([
    ['without a pool', { role: 'relay' }, 'invalid_request'],
    ['with a tenant', { role: 'relay', pool: externalPool, tenant: 'acme' }, 'invalid_request'],
    ['for an unknown pool', { role: 'relay', pool: 'nowhere' }, 'pool_not_found'],
    ['with the role viewer', { role: 'viewer', pool: externalPool }, 'invalid_request'],
  ] as const)('gets no token %s', async (_, fields, code) => {
    const body = { name: 'wrong', ...fields };
    expectProblem(await callRoute(server.url, 'token-create', { body }, { bearer: server.token }), code);
  });
});

it('closes its streams with the code not_ready when the server stops', async () => {
  const { closed } = await openStream(server.url, machine.credential);
  await server.stop();
  expect(await closed).toEqual({ code: 1001, reason: 'not_ready' });
});
