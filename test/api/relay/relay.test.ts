/**
 * A relay between agents and the control plane: it returns real answers, forwards everything else,
 * and never confirms a heartbeat that was not received.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentBench } from '../../../src/agent/testing/agent-process.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { defaultLimits } from '../../../src/relay/batcher.ts';
import { type Relay, startRelay } from '../../../src/relay/relay.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem, send } from '../support/calls.ts';
import { type Machine, startMachine } from '../support/machine.ts';
import { enrolledAgain, externalPool, externalServer, readyMachine } from '../support/tenants.ts';

/** A proxy whose connections can be cut; data in transit is lost. */
async function cuttable(url: string) {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let down = false;
  /** While held, answers of the control plane do not come through. */
  let held = false;
  const server = createServer((near) => {
    if (down) return void near.destroy();
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
      if (!held) near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold(value: boolean) {
      held = value;
    },
    down(value: boolean) {
      down = value;
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

let server: Awaited<ReturnType<typeof externalServer>>;
let wire: Awaited<ReturnType<typeof cuttable>>;
let relay: Relay;
let said = '';

const options = {
  ca: null,
  host: '127.0.0.1',
  port: 0,
  tls_cert: null,
  tls_key: null,
  behind_proxy: false,
  log_level: '',
};

async function relayWith(token: string | null, hold_ms = defaultLimits.hold_ms): Promise<Relay> {
  const destination = {
    write(line: string) {
      said += line;
    },
  };
  return startRelay(
    { ...options, server_urls: [wire.url], token },
    {
      clock: systemClock,
      log: createLog({ level: 'trace', destination }),
      limits: { ...defaultLimits, hold_ms },
    },
  );
}

/** The same machine, reached through the relay. */
const through = (to: Relay, { credential }: Machine, body: object = {}) =>
  callRoute(to.url, 'agent-heartbeat', { body }, { bearer: credential });

const rowOf = async ({ node_id }: Machine) =>
  (await server.tables.query<{ status: string }>('select status from nodes where node_id = $1', [node_id]))[0]?.status;

beforeAll(async () => {
  server = await externalServer();
  wire = await cuttable(server.url);
  const body = { name: 'rack', role: 'relay' as const, pool: externalPool };
  const { token = '' } = await server.client.call('token-create', { body });
  relay = await relayWith(token);
  await until('the stream to be open', () => relay.figures().streaming);
});
afterAll(async () => {
  await relay.stop();
  wire.stop();
  await server.stop();
});

it('answers each agent with the result of its own heartbeat, after status reports are durable', async () => {
  const machines = await Promise.all(['one', 'two', 'three'].map((name) => readyMachine(server, name)));
  const [one, two, three] = machines as [Machine, Machine, Machine];
  const old = await readyMachine(server, 'made-anew');
  await old.beat('stopping');
  await enrolledAgain(server, old);
  const before = relay.figures().batches;
  const [first, second, third, fenced, unknown, wrong, nobody] = await Promise.all([
    through(relay, one, { status: 'degraded' }),
    through(relay, two),
    through(relay, three, { status: 'ready', active_tasks: 2 }),
    through(relay, old),
    through(relay, { ...one, credential: 'swc_wrong' } as Machine),
    through(relay, two, { status: 'splendid' }),
    callRoute(relay.url, 'agent-heartbeat', {}),
  ]);
  expect(first.body).toMatchObject({ node_status: 'degraded', heartbeat_interval_seconds: expect.any(Number) });
  expect(await rowOf(one)).toBe('degraded');
  expect([second.body, third.body]).toMatchObject([{ node_status: 'ready' }, { node_status: 'ready' }]);
  expect(fenced).toMatchObject({ status: 409, body: { code: 'instance_fenced' } });
  expect(unknown).toMatchObject({ status: 401, body: { code: 'credential_unknown' } });
  expectProblem(wrong, 'claim_status_unknown');
  expectProblem(nobody, 'token_missing');
  expect(relay.figures().batches - before, 'they travelled together').toBeLessThanOrEqual(2);
  expect(first.headers.get('date'), "its clock is not the control plane's").toBeNull();
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
    expectProblemOfRelay(await send(relay.url, 'GET', path, { bearer: server.token }), 'not_found');
  const foreign = { bearer: machine.credential, headers: { origin: 'https://elsewhere.example' } };
  expectProblemOfRelay(await send(relay.url, 'POST', '/v1/agent/heartbeat', foreign), 'origin_refused');
  expect((await send(relay.url, 'GET', '/metrics')).text).toMatch(/slipway_relay_upstream_streaming 1\n/);
});

const expectProblemOfRelay = (answer: { body: object }, code: string) => expect(answer.body).toMatchObject({ code });

describe('a connection that is cut', () => {
  it('in the middle of a batch loses no answer, and is recorded', async () => {
    const machines = await Promise.all(['cut-1', 'cut-2'].map((name) => readyMachine(server, name)));
    await until('the stream to be open', () => relay.figures().streaming);
    wire.hold(true);
    const answers = Promise.all(machines.map((machine) => through(relay, machine, { status: 'degraded' })));
    await until('the reports to be stored, without answers', async () => {
      const statuses = await Promise.all(machines.map(rowOf));
      return statuses.every((status) => status === 'degraded');
    });
    wire.cut();
    wire.hold(false);
    for (const answer of await answers) expect(answer.body).toMatchObject({ node_status: 'degraded' });
    await until('the evidence', async () => {
      const rows = await server.tables.query(
        "select data, actor from evidence where kind = 'connection.broken' and data ->> 'of' = 'relay'",
      );
      return rows.length > 0 && (rows[0] as { actor: object }).actor;
    });
    await until('the stream to come back', () => relay.figures().streaming);
  });

  it('for longer makes heartbeats fail until it is back', async () => {
    const machine = await readyMachine(server, 'unheard');
    const impatient = await relayWith(null, 300);
    wire.down(true);
    wire.cut();
    const unheard = await through(impatient, machine);
    expect(unheard).toMatchObject({ status: 503, body: { code: 'relay_upstream_away', owner_layer: 'transport' } });
    expect(Number(unheard.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    const passed = await callRoute(impatient.url, 'agent-task-next', {}, { bearer: machine.credential });
    expect(passed).toMatchObject({ status: 503, body: { code: 'relay_upstream_away' } });
    wire.down(false);
    await until('to be heard again', async () => (await through(impatient, machine)).status === 200);
    await impatient.stop();
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
    await until('ready', async () => (await rowOf(machine)) === 'ready');
    agent.kill('SIGTERM');
    expect((await agent.exit).code).toBe(0);
    await until('the goodbye', async () => (await rowOf(machine)) === 'offline');
  } finally {
    await bench.clear();
  }
});

it('writes no secret to its log', () => {
  expect(said).toContain('the stream to the control plane is open');
  expect(said).not.toMatch(/sw[crj]_/);
});

it('does not serve with a refused token', async () => {
  for (const token of ['swr_nobody-knows-this', server.token])
    await expect(relayWith(token)).rejects.toThrow('slipway tokens create');
});

describe('a machine whose heartbeats are refused because of its relay', () => {
  const waitsFor = async ({ node_id }: Machine) =>
    (await server.client.call('node-explain', { params: { id: node_id } })).waiting_for;
  const explained = (machine: Machine, words: string) =>
    until(`its explanation to say: ${words}`, async () => {
      const said = await waitsFor(machine);
      return said?.includes(words) ? said : undefined;
    });
  const tokenFor = async (name: string, pool: string) => {
    await server.client.call('pool-put', { params: { pool: 'elsewhere' }, body: { driver: 'external' } });
    const body = { name, role: 'relay' as const, pool };
    const { token = '', token_id } = await server.client.call('token-create', { body });
    return { token, token_id };
  };
  const batch = ({ credential }: Machine, bearer: string) =>
    callRoute(server.url, 'agent-heartbeats', { body: { beats: [{ credential, status: 'ready' }] } }, { bearer });

  it('is explained as being of another pool, not as silent, until it is heard again', async () => {
    const machine = await readyMachine(server, 'of-another-pool');
    const { token } = await tokenFor('rack-elsewhere', 'elsewhere');
    const answer = await batch(machine, token);
    expect(answer.body).toMatchObject({ results: [{ code: 'scope_insufficient' }] });
    const said = await explained(machine, 'relay token rack-elsewhere is for pool elsewhere');
    expect(said).toContain(`--role relay --pool ${externalPool}`);
    expect(await machine.beat('ready')).toMatchObject({ status: 200 });
    await until('that to be over', async () => (await waitsFor(machine)) === null);
  });

  it('is explained by the revoked token', async () => {
    const machine = await readyMachine(server, 'behind-a-revoked-one');
    const { token, token_id } = await tokenFor('rack-former', externalPool);
    expect((await batch(machine, token)).status).toBe(200);
    await server.client.call('token-delete', { params: { id: token_id } });
    expectProblem(await batch(machine, token), 'token_unknown');
    await explained(machine, 'relay token rack-former was revoked');
  });

  it('is not recorded for a machine that a relay only names', async () => {
    const machine = await readyMachine(server, 'only-named');
    const { token } = await tokenFor('rack-nosy', 'elsewhere');
    const { node_instance_id } = machine;
    const before = await server.tables.snapshot();
    const beats = { beats: [{ node_instance_id, status: 'stopping' as const }] };
    const answer = await callRoute(server.url, 'agent-heartbeats', { body: beats }, { bearer: token });
    expect(answer.body).toMatchObject({ results: [{ code: 'beat_credential_missing' }] });
    expect(await server.tables.snapshot()).toEqual(before);
    expect(await waitsFor(machine)).toBeNull();
  });
});
