/**
 * Tests the agent protocol: the codes of refusals, lost replies, join tokens, credential rotation,
 * batches, and the cost of a heartbeat.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { newNodeId, newNodeInstanceId } from '../../../src/base/ids.ts';
import { keyProofBody } from '../../../src/contract/agent/key-proof.ts';
import { type Installation, openInstallation } from '../../../src/store/keys/installation.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { transition } from '../../../src/store/transitions/node-transition.ts';
import { defaultEnvironment } from '../../../src/store/transitions/transition-rules.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem } from '../support/calls.ts';
import { type Machine, registration, startMachine } from '../support/machine.ts';
import { externalPool, externalServer, readyMachine } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
let installation: Installation;
beforeAll(async () => {
  server = await externalServer();
  const db = openDatabase({ url: server.database_url });
  installation = await openInstallation(db, new Date(systemClock.nowMs()));
  await db.close();
});
afterAll(() => server.stop());

const createNode = (name: string) => server.client.call('node-create', { body: { pool: externalPool, name } });
const register = (body: object, bearer?: string) =>
  callRoute(server.url, 'agent-register', { body }, bearer === undefined ? {} : { bearer });
const join = (name: string, join_token = server.join_token) => register(registration({ join_token, name }));
const createJoinToken = (body: object) =>
  server.client.call('join-token-create', { params: { pool: externalPool }, body });

async function readStatus(machine: Pick<Machine, 'node_id'>): Promise<string> {
  const [row] = await server.tables.query<{ status: string }>('select status from nodes where node_id = $1', [
    machine.node_id,
  ]);
  return row?.status ?? '';
}

async function quarantine(machine: Machine): Promise<void> {
  const db = openDatabase({ url: server.database_url });
  const move = {
    node_id: machine.node_id as never,
    to: 'quarantined' as const,
    by: 'quarantine' as const,
    reason: 'test',
  };
  await db.transaction((tx) => transition(tx, [move], new Date(systemClock.nowMs()), defaultEnvironment));
  await db.close();
}

describe('the server', () => {
  it('refuses a replaced instance with instance_fenced', async () => {
    const replacedMachine = await readyMachine(server, 'replaced');
    await replacedMachine.beat('stopping');
    const params = { id: replacedMachine.node_id, action: 're-enroll' } as const;
    await server.client.call('node-act', { params, body: { reason: 'its disk was replaced' } });
    for (const call of ['agent-heartbeat', 'agent-task-next', 'agent-credential-rotate'] as const)
      expectProblem(await replacedMachine.call(call), 'instance_fenced');
    expectProblem(await register({ version: '1' }, replacedMachine.credential), 'instance_fenced');
  });

  it('refuses tasks and registration of a fenced node with node_fenced', async () => {
    const { enrollment_token } = await createNode('fenced');
    const machine = await startMachine(server.url, { enrollment_token });
    await machine.beat('ready');
    await quarantine(machine);
    const answer = await until('the replica to refuse the node', async () => {
      const poll = await machine.call('agent-task-next');
      return poll.status === 200 ? undefined : poll;
    });
    expectProblem(answer, 'node_fenced');
    expectProblem(await register({ version: '1' }, machine.credential), 'node_fenced');
    expect((await machine.beat('ready')).body.node_status).toBe('quarantined');
  });

  it('refuses a credential that was never issued with credential_unknown', async () => {
    expectProblem(await register({ version: '1' }, 'swc_nobody'), 'credential_unknown');
    expectProblem(await callRoute(server.url, 'agent-heartbeat', {}, { bearer: 'swc_nobody' }), 'credential_unknown');
  });

  it('answers enrollment_pending before the node exists, and enrollment_invalid to a forged token', async () => {
    const claims = {
      pool: externalPool,
      node_id: newNodeId(systemClock),
      node_instance_id: newNodeInstanceId(systemClock),
    };
    const enrollment_token = installation.signEnrollmentToken(claims);
    const firstAnswer = await register(registration({ enrollment_token }));
    expectProblem(firstAnswer, 'enrollment_pending');
    const secondAnswer = await register(registration({ enrollment_token }));
    expect(firstAnswer.body.retry_after_seconds).toBe(1);
    expect(firstAnswer.headers.get('retry-after')).toBe('1');
    // Retries must not move the deadline, or a machine without a node would retry forever.
    expect(secondAnswer.body.deadline_at).toBe(firstAnswer.body.deadline_at);
    const seconds = (Date.parse(String(firstAnswer.body.deadline_at)) - systemClock.nowMs()) / 1000;
    expect(seconds).toBeGreaterThan(600);
    expect(seconds).toBeLessThanOrEqual(721);
    const signature = enrollment_token.lastIndexOf('.') + 1;
    const otherCharacter = enrollment_token[signature] === 'A' ? 'B' : 'A';
    const forgedToken = `${enrollment_token.slice(0, signature)}${otherCharacter}${enrollment_token.slice(signature + 1)}`;
    expectProblem(await register(registration({ enrollment_token: forgedToken })), 'enrollment_invalid');
    expectProblem(await register({ version: '1' }), 'token_missing');
  });
});

describe('registration', () => {
  it('can be repeated after a lost reply, until the credential is used', async () => {
    const { enrollment_token, node } = await createNode('lost-reply');
    const lostReply = await register(registration({ enrollment_token }));
    const second = await startMachine(server.url, { enrollment_token });
    expect([second.node_id, second.node_instance_id]).toEqual([node.node_id, lostReply.body.node_instance_id]);
    expectProblem(
      await callRoute(server.url, 'agent-heartbeat', {}, { bearer: String(lostReply.body.credential) }),
      'credential_unknown',
    );
    expect((await second.beat('ready')).status).toBe(200);
    expectProblem(await register(registration({ enrollment_token })), 'enrollment_invalid');
    expect((await second.beat()).body.node_status).toBe('ready');
  });

  it('with a credential counts as a restart, and does not change the status', async () => {
    const machine = await readyMachine(server, 'restarting');
    const nodeBefore = await server.client.call('node-get', { params: { id: machine.node_id } });
    const reply = await register({ version: '2' }, machine.credential);
    expect(reply.status).toBe(200);
    expect(reply.body).not.toHaveProperty('credential');
    const nodeAfter = await server.client.call('node-get', { params: { id: machine.node_id } });
    expect(nodeAfter).toMatchObject({
      status: 'ready',
      registered_at: nodeBefore.registered_at,
      restarts: nodeBefore.restarts + 1,
    });
  });

  it('by join token is limited in uses and time', async () => {
    const twice = await createJoinToken({ max_uses: 2 });
    const token = twice.token ?? '';
    expect((await join('one', token)).status).toBe(201);
    expect((await join('two', token)).status).toBe(201);
    expectProblem(await join('three', token), 'join_token_spent');
    const expiredToken = (await createJoinToken({ ttl_seconds: 0.001 })).token ?? '';
    expectProblem(await join('late', expiredToken), 'join_token_expired');
    expectProblem(await join('one', token), 'join_token_spent');
    expectProblem(await register({ join_token: token, version: '1' }), 'invalid_request');
    const { items } = await server.client.call('join-token-list', { params: { pool: externalPool } });
    expect(items.find(({ token_id }) => token_id === twice.token_id)).toMatchObject({ uses: 2, max_uses: 2 });
  });

  it('of a known name needs its credential or key, never a join token alone', async () => {
    const { token = '', token_id } = await createJoinToken({});
    const private_key = newKeyPair();
    const agent_public_key = publicKeyOf(private_key);
    const request = { join_token: token, name: 'returning', version: 'test', agent_public_key };
    const first = await register(request);
    expect(first.status).toBe(201);
    const beat = (bearer: unknown, status: string) =>
      callRoute(server.url, 'agent-heartbeat', { body: { status } }, { bearer: String(bearer) });
    await beat(first.body.credential, 'ready');
    expectProblem(await join('returning', token), 'name_taken');
    await beat(first.body.credential, 'stopping');
    expectProblem(await join('returning', token), 'identity_unproven');

    const signed_at = moment(systemClock.nowMs()).toISOString();
    const signature = signatureOf(private_key, keyProofBody({ ...request, signed_at }));
    const second = await register({ ...request, key_proof: { signed_at, signature } });
    expect(second.status).toBe(200);
    expect(second.body).toMatchObject({ node_id: first.body.node_id, node_instance_id: first.body.node_instance_id });
    expectProblem(await beat(first.body.credential, 'ready'), 'credential_unknown');
    expect((await beat(second.body.credential, 'ready')).body.node_status).toBe('ready');

    await server.client.call('join-token-delete', { params: { pool: externalPool, id: token_id } });
    expectProblem(await join('returning', token), 'join_token_invalid');
  });
});

it('accepts the former credential until the first use of the rotated one', async () => {
  const machine = await readyMachine(server, 'rotating');
  const rotation = await machine.call('agent-credential-rotate');
  expect((await machine.beat()).status).toBe(200);
  const rotatedOptions = { bearer: String(rotation.body.credential) };
  expect((await callRoute(server.url, 'agent-heartbeat', {}, rotatedOptions)).status).toBe(200);
  expectProblem(await machine.beat(), 'credential_unknown');
  expect((await callRoute(server.url, 'agent-heartbeat', {}, rotatedOptions)).status).toBe(200);
});

describe('heartbeats', () => {
  it('of a batch are processed in order per instance', async () => {
    const machines = await Promise.all(
      Array.from({ length: 6 }, (_, index) => readyMachine(server, `ordered-${index}`)),
    );
    const reports = ['degraded', 'ready', 'stopping', 'ready', 'degraded'] as const;
    const beats = reports.flatMap((status) => machines.map(({ credential }) => ({ credential, status })));
    const { body } = await callRoute(server.url, 'agent-heartbeats', { body: { beats } });
    const { results } = body as unknown as { results: { node_status: string }[] };
    const answeredStatuses = machines.map((_, index) =>
      reports.map((__, round) => results[round * machines.length + index]?.node_status),
    );
    expect(answeredStatuses).toEqual(machines.map(() => ['degraded', 'ready', 'offline', 'ready', 'degraded']));
    expect(await Promise.all(machines.map(readStatus)), 'the stored statuses').toEqual(machines.map(() => 'degraded'));
  });

  it('of a batch have one result each', async () => {
    const [healthy, leaving] = [await readyMachine(server, 'healthy'), await readyMachine(server, 'leaving')];
    const beats = [
      { credential: healthy.credential, health_score: 90 },
      { credential: 'swc_nobody' },
      { credential: leaving.credential, status: 'stopping' },
    ];
    const { body } = await callRoute(server.url, 'agent-heartbeats', { body: { beats } });
    expect(body.results).toEqual([
      expect.objectContaining({ node_status: 'ready' }),
      expect.objectContaining({ code: 'credential_unknown', status: 401 }),
      expect.objectContaining({ node_status: 'offline' }),
    ]);
  });

  it('that change a status are durable before they are answered', async () => {
    const machine = await startMachine(server.url, { join_token: server.join_token, name: 'prompt' });
    for (const [report, status] of [
      ['ready', 'ready'],
      ['degraded', 'degraded'],
      ['ready', 'ready'],
      ['stopping', 'offline'],
      [undefined, 'ready'],
    ] as const) {
      expect((await machine.beat(report)).body.node_status).toBe(status);
      expect(await readStatus(machine), `after ${report}`).toBe(status);
    }
  });

  /** Whether a statement only opens or closes a transaction. */
  const isTransactionControl = (text: string) => /^(begin|commit|set local \w+ = \w+)$/i.test(text);

  it('that change nothing cost no query of their own', async () => {
    const machine = await readyMachine(server, 'steady');
    await machine.beat();
    const statements = new Map<string, number>();
    const spy = vi.spyOn(pg.Client.prototype, 'query');
    // Many heartbeats are sent at once, so that even on a slow machine the periodic statements are
    // few in comparison.
    const [rounds, concurrency] = [15, 20];
    const beats = rounds * concurrency;
    for (let round = 0; round < rounds; round++) {
      const replies = await Promise.all(Array.from({ length: concurrency }, () => machine.beat('ready')));
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    }
    for (const [query] of spy.mock.calls as unknown[][]) {
      const text = typeof query === 'string' ? query : String((query as { text?: string }).text);
      // The evidence tail polls while transactions of other tests on the same cluster delay rows;
      // heartbeats are not involved.
      if (text.includes('as settled from evidence') || isTransactionControl(text)) continue;
      statements.set(text, (statements.get(text) ?? 0) + 1);
    }
    spy.mockRestore();
    expect(statements.size).toBeGreaterThan(0);
    const maxRepeats = Math.max(...statements.values());
    expect(maxRepeats, JSON.stringify([...statements])).toBeLessThan(beats / 3);
    await until('the heartbeats to be stored', async () => {
      const node = await server.client.call('node-get', { params: { id: machine.node_id } });
      return node.last_seen_at;
    });
  });
});

it('sends no task to a poll whose connection was closed', async () => {
  const [disconnected, sentinel] = await Promise.all([
    readyMachine(server, 'hung-up'),
    readyMachine(server, 'sentinel'),
  ]);
  const probe = ({ node_id }: Machine) =>
    server.client.call('node-act', { params: { id: node_id, action: 'probe' }, body: { reason: 'is it there' } });
  const abort = new AbortController();
  const poll = fetch(`${server.url}/v1/agent/tasks/next?wait=60`, {
    headers: { authorization: `Bearer ${disconnected.credential}` },
    signal: abort.signal,
  });
  await disconnected.beat();
  abort.abort();
  await expect(poll).rejects.toThrow();
  await probe(disconnected);
  // The task of the sentinel is queued later. Once it is delivered, the server has processed both.
  const sentinelPoll = sentinel.call('agent-task-next', { query: { wait: 60 } });
  await probe(sentinel);
  expect((await sentinelPoll).body.task).not.toBeNull();
  const readTaskStatuses = () =>
    server.tables.query<{ status: string }>('select status from tasks where node_instance_id = $1', [
      disconnected.node_instance_id,
    ]);
  await until('the task to be queued', async () => (await readTaskStatuses()).length > 0);
  expect(await readTaskStatuses()).toEqual([{ status: 'queued' }]);
  expect((await disconnected.call('agent-task-next')).body.task).not.toBeNull();
});

it('records repeated refusals of an unknown caller in few rows', async () => {
  const readDenials = () =>
    server.tables.query(`select 1 from evidence where kind in ('request.denied', 'registration.refused')`);
  expectProblem(await join('stranger', 'swj_nobody'), 'join_token_invalid');
  const countBefore = (await readDenials()).length;
  for (let attempt = 0; attempt < 20; attempt++)
    expectProblem(await join('stranger', `swj_${attempt}`), 'join_token_invalid');
  // Of these refusals only the tenth is recorded, with the number since the first.
  expect((await readDenials()).length).toBe(countBefore + 1);
});
