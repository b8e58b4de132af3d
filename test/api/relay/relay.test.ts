/**
 * A relay answers heartbeats with the results of the control plane and forwards the rest of the
 * agent protocol. It never confirms a heartbeat that the control plane has not received.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentBench } from '../../../src/agent/testing/agent-process.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { defaultBatcherLimits } from '../../../src/relay/batcher.ts';
import { type Relay, startRelay } from '../../../src/relay/relay.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem, send } from '../support/calls.ts';
import { type Machine, startMachine } from '../support/machine.ts';
import { externalPool, externalServer, readyMachine, reenroll } from '../support/tenants.ts';

/** A proxy whose connections a test can cut. Data in transit is lost. */
async function startCuttableProxy(url: string) {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let refusesConnections = false;
  let dropsAnswers = false;
  const server = createServer((near) => {
    if (refusesConnections) return void near.destroy();
    const far = connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far);
    far.on('data', (chunk) => {
      if (!dropsAnswers) near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** While true, answers of the control plane do not reach the relay. */
    dropAnswers(value: boolean) {
      dropsAnswers = value;
    },
    refuseConnections(value: boolean) {
      refusesConnections = value;
    },
    cutConnections() {
      for (const socket of sockets) socket.destroy();
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

let server: Awaited<ReturnType<typeof externalServer>>;
let proxy: Awaited<ReturnType<typeof startCuttableProxy>>;
let relay: Relay;
let logText = '';

const options = {
  ca: null,
  host: '127.0.0.1',
  port: 0,
  tls_cert: null,
  tls_key: null,
  behind_proxy: false,
  log_level: '',
};

async function startRelayWith(token: string | null, max_wait_ms = defaultBatcherLimits.max_wait_ms): Promise<Relay> {
  const destination = {
    write(line: string) {
      logText += line;
    },
  };
  return startRelay(
    { ...options, server_urls: [proxy.url], token },
    {
      clock: systemClock,
      log: createLog({ level: 'trace', destination }),
      limits: { ...defaultBatcherLimits, max_wait_ms },
    },
  );
}

/** Sends a heartbeat of the machine through the relay. */
const beatThrough = (to: Relay, { credential }: Machine, body: object = {}) =>
  callRoute(to.url, 'agent-heartbeat', { body }, { bearer: credential });

const readStatus = async ({ node_id }: Machine) =>
  (await server.tables.query<{ status: string }>('select status from nodes where node_id = $1', [node_id]))[0]?.status;

beforeAll(async () => {
  server = await externalServer();
  proxy = await startCuttableProxy(server.url);
  const body = { name: 'rack', role: 'relay' as const, pool: externalPool };
  const { token = '' } = await server.client.call('token-create', { body });
  // A long wait, because on a slow host an answer may take longer than an agent would wait.
  relay = await startRelayWith(token, 30_000);
  await until('the stream to be open', () => relay.figures().streaming);
});
afterAll(async () => {
  await relay.stop();
  proxy.stop();
  await server.stop();
});

it('answers each agent with the result of its own heartbeat, after status reports are durable', async () => {
  const machines = await Promise.all(['one', 'two', 'three'].map((name) => readyMachine(server, name)));
  const [one, two, three] = machines as [Machine, Machine, Machine];
  const replacedMachine = await readyMachine(server, 'replaced');
  await replacedMachine.beat('stopping');
  await reenroll(server, replacedMachine);
  const batchesBefore = relay.figures().batches;
  const [first, second, third, fenced, unknown, invalid, anonymous] = await Promise.all([
    beatThrough(relay, one, { status: 'degraded' }),
    beatThrough(relay, two),
    beatThrough(relay, three, { status: 'ready', active_tasks: 2 }),
    beatThrough(relay, replacedMachine),
    beatThrough(relay, { ...one, credential: 'swc_wrong' } as Machine),
    beatThrough(relay, two, { status: 'splendid' }),
    callRoute(relay.url, 'agent-heartbeat', {}),
  ]);
  expect(first.body).toMatchObject({ node_status: 'degraded', heartbeat_interval_seconds: expect.any(Number) });
  expect(await readStatus(one)).toBe('degraded');
  expect([second.body, third.body]).toMatchObject([{ node_status: 'ready' }, { node_status: 'ready' }]);
  expect(fenced).toMatchObject({ status: 409, body: { code: 'instance_fenced' } });
  expect(unknown).toMatchObject({ status: 401, body: { code: 'credential_unknown' } });
  expectProblem(invalid, 'claim_status_unknown');
  expectProblem(anonymous, 'token_missing');
  expect(relay.figures().batches - batchesBefore, 'batches for all heartbeats').toBeLessThanOrEqual(2);
  expect(first.headers.get('date'), 'the Date header, which the relay itself does not send').toBeNull();
});

it('forwards the rest of the agent protocol unchanged, and nothing else', async () => {
  const machine = await startMachine(relay.url, { join_token: server.join_token, name: 'behind' });
  expect((await machine.beat('ready')).body).toMatchObject({ node_status: 'ready' });
  expect((await machine.log(1, 'said behind a relay')).body).toEqual({ acknowledged_seq: 1 });
  expect((await machine.call('agent-boot', { body: { stages: [{ name: 'bios', seconds: 2 }] } })).status).toBe(200);
  const { task_id } = await server.client.call('node-ping', { params: { id: machine.node_id }, body: {} });
  const params = { id: machine.node_id, task_id };
  await machine.work(async () => (await server.client.call('node-ping-get', { params })).over);
  expect((await send(relay.url, 'GET', '/healthz')).headers.get('date')).not.toBeNull();
  for (const path of ['/v1/nodes', '/', '/v1/agent/stream'])
    expectRelayProblem(await send(relay.url, 'GET', path, { bearer: server.token }), 'not_found');
  const foreign = { bearer: machine.credential, headers: { origin: 'https://elsewhere.example' } };
  expectRelayProblem(await send(relay.url, 'POST', '/v1/agent/heartbeat', foreign), 'origin_refused');
  expect((await send(relay.url, 'GET', '/metrics')).text).toMatch(/slipway_relay_upstream_streaming 1\n/);
});

const expectRelayProblem = (answer: { body: object }, code: string) => expect(answer.body).toMatchObject({ code });

describe('when the connection to the control plane is cut', () => {
  it('during a batch, no answer is lost and the break is recorded', async () => {
    const machines = await Promise.all(['cut-1', 'cut-2'].map((name) => readyMachine(server, name)));
    await until('the stream to be open', () => relay.figures().streaming);
    proxy.dropAnswers(true);
    const answers = Promise.all(machines.map((machine) => beatThrough(relay, machine, { status: 'degraded' })));
    await until('the reports to be stored, without answers', async () => {
      const statuses = await Promise.all(machines.map(readStatus));
      return statuses.every((status) => status === 'degraded');
    });
    proxy.cutConnections();
    proxy.dropAnswers(false);
    for (const answer of await answers) expect(answer.body).toMatchObject({ node_status: 'degraded' });
    await until('the evidence', async () => {
      const rows = await server.tables.query(
        "select data, actor from evidence where kind = 'connection.broken' and data ->> 'of' = 'relay'",
      );
      return rows.length > 0 && (rows[0] as { actor: object }).actor;
    });
    await until('the stream to be open again', () => relay.figures().streaming);
  });

  it('for longer than the relay waits, heartbeats fail until the connection is restored', async () => {
    const machine = await readyMachine(server, 'cut-off');
    const impatientRelay = await startRelayWith(null, 300);
    proxy.refuseConnections(true);
    proxy.cutConnections();
    const refusal = await beatThrough(impatientRelay, machine);
    expect(refusal).toMatchObject({ status: 503, body: { code: 'relay_upstream_away', owner_layer: 'transport' } });
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    const forwardedCall = await callRoute(impatientRelay.url, 'agent-task-next', {}, { bearer: machine.credential });
    expect(forwardedCall).toMatchObject({ status: 503, body: { code: 'relay_upstream_away' } });
    proxy.refuseConnections(false);
    await until('a heartbeat to be accepted', async () => (await beatThrough(impatientRelay, machine)).status === 200);
    await impatientRelay.stop();
  });
});

it('serves a real agent, from its registration to its goodbye', async () => {
  const bench = agentBench();
  try {
    const { enrollment_token, node } = await server.client.call('node-create', {
      body: { pool: externalPool, name: 'real' },
    });
    const ids = { node_id: node.node_id, node_instance_id: node.node_instance_id };
    const agent = bench.start(bench.dir(), { server_url: relay.url, stream: true, enrollment_token, ...ids });
    const machine = ids as unknown as Machine;
    await until('the node to be ready', async () => (await readStatus(machine)) === 'ready');
    agent.kill('SIGTERM');
    expect((await agent.exit).code).toBe(0);
    await until('the node to be offline', async () => (await readStatus(machine)) === 'offline');
  } finally {
    await bench.clear();
  }
});

it('writes no secret to its log', () => {
  expect(logText).toContain('the stream to the control plane is open');
  expect(logText).not.toMatch(/sw[crj]_/);
});

it('names the pool of a relay token in the fact about its creation', async () => {
  const facts = await server.tables.query("select summary from evidence where kind = 'token.created'");
  expect(facts).toContainEqual({ summary: `token rack (relay, pool ${externalPool}) was created` });
});

it('does not start with a refused token', async () => {
  for (const token of ['swr_nobody-knows-this', server.token])
    await expect(startRelayWith(token)).rejects.toThrow('slipway tokens create');
});

describe('a machine whose heartbeats are refused because of its relay', () => {
  const readExplanation = ({ node_id }: Machine) => server.client.call('node-explain', { params: { id: node_id } });
  const waitForRefusal = (machine: Machine) =>
    until('the explanation to cite the refused heartbeat', async () => {
      const { because, waiting_for } = await readExplanation(machine);
      const refusal = because.evidence.find(({ kind }) => kind === 'beat.refused');
      return refusal && waiting_for ? { data: refusal.data, waiting_for } : undefined;
    });
  const createRelayToken = async (name: string, pool: string) => {
    await server.client.call('pool-put', { params: { pool: 'elsewhere' }, body: { driver: 'external' } });
    const body = { name, role: 'relay' as const, pool };
    const { token = '', token_id } = await server.client.call('token-create', { body });
    return { token, token_id };
  };
  const sendBatch = ({ credential }: Machine, bearer: string) =>
    callRoute(server.url, 'agent-heartbeats', { body: { beats: [{ credential, status: 'ready' }] } }, { bearer });

  it('is explained by the pool of the relay token, until a heartbeat is accepted', async () => {
    const machine = await readyMachine(server, 'of-another-pool');
    const { token } = await createRelayToken('rack-elsewhere', 'elsewhere');
    const answer = await sendBatch(machine, token);
    expect(answer.body).toMatchObject({ results: [{ code: 'scope_insufficient' }] });
    const { data, waiting_for } = await waitForRefusal(machine);
    expect(data).toMatchObject({ code: 'scope_insufficient', relay: 'rack-elsewhere', relay_pool: 'elsewhere' });
    expect(waiting_for).toContain(`--role relay --pool ${externalPool}`);
    expect(await machine.beat('ready')).toMatchObject({ status: 200 });
    await until(
      'the explanation to wait for nothing',
      async () => (await readExplanation(machine)).waiting_for === null,
    );
  });

  it('is explained by the revoked token', async () => {
    const machine = await readyMachine(server, 'behind-a-revoked-one');
    const { token, token_id } = await createRelayToken('rack-former', externalPool);
    expect((await sendBatch(machine, token)).status).toBe(200);
    await server.client.call('token-delete', { params: { id: token_id } });
    expectProblem(await sendBatch(machine, token), 'token_unknown');
    expect((await waitForRefusal(machine)).data).toMatchObject({ code: 'token_unknown', relay: 'rack-former' });
  });

  it('is not recorded if the relay sends only the instance id of the machine', async () => {
    const machine = await readyMachine(server, 'only-named');
    const { token } = await createRelayToken('rack-nosy', 'elsewhere');
    const { node_instance_id } = machine;
    const snapshotBefore = await server.tables.snapshot();
    const beats = { beats: [{ node_instance_id, status: 'stopping' as const }] };
    const answer = await callRoute(server.url, 'agent-heartbeats', { body: beats }, { bearer: token });
    expect(answer.body).toMatchObject({ results: [{ code: 'beat_credential_missing' }] });
    expect(await server.tables.snapshot()).toEqual(snapshotBefore);
    expect((await readExplanation(machine)).waiting_for).toBeNull();
  });
});
