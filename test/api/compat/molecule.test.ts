/**
 * The molecule protocol, and the tokens of both protocols: which calls they allow, and that they
 * appear in no output.
 */

import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/calls.ts';
import { type Collector, startCollector } from '../support/collector.ts';
import {
  type AgentField,
  agentField,
  expectTheirError,
  molecule,
  nodeRegistration,
  type ProtocolFixture,
  protocolFixture,
  protocolPool,
  startWorkspace,
} from '../support/compat-clients.ts';
import { startMachine } from '../support/machine.ts';

let fixture: ProtocolFixture;
let collector: Collector;
let fleet: AgentField;
let token: string;
let others: string;
let log = '';

beforeAll(async () => {
  collector = await startCollector();
  const destination = new Writable({
    write(chunk, _, done) {
      log += chunk;
      done();
    },
  });
  fixture = await protocolFixture({
    args: ['--otlp-endpoint', collector.url],
    log: createLog({ level: 'trace', destination }),
  });
  ({ join_token: token, others } = fixture);
  fleet = agentField(fixture.url, token);
});
afterAll(async () => {
  await fixture.stop();
  await collector.stop();
});

const url = 'http://127.0.0.1:9000';
const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c01';
const other = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c02';

it('refuses an invalid address, and names the field', async () => {
  const body = { id: other, url: 'not an address' };
  const answer = await send(fixture.url, 'POST', '/compat/molecule/registry/register', { bearer: token, body });
  expectTheirError(answer, 400);
  expect(answer.body.error).toContain('/body/url ');
});

it('issues a token once at registration, and accepts heartbeats only with it', async () => {
  const workspace = await startWorkspace(fixture.url, token, id, { url });
  expect(await fixture.status(id)).toBe('starting');
  expect((await workspace.beat()).body).toEqual({ status: 'ok' });
  expect(await fixture.node(id)).toMatchObject({ status: 'ready', verdict: null, endpoint: url });
  await fixture.pace(id, { interval_seconds: 30, stale_seconds: 24 * 3600 });

  expectTheirError(await workspace.beat({}, {}), 401);
  expectTheirError(await workspace.beat({}, { bearer: token }), 401);
  expectTheirError(await workspace.beat({}, { bearer: 'swc_wrong' }), 401);
  expectTheirError(await molecule(fixture.url, token, '/registry/register', { body: { id } }), 401);
  const again = await molecule(fixture.url, token, '/registry/register', {
    body: { id },
    bearer: workspace.auth_token,
  });
  expect(again.body).toEqual({ status: 'registered' });
  const neighbour = await startWorkspace(fixture.url, token, other);
  expectTheirError(await workspace.beat({ runtime_state: 'wedged' }, { bearer: neighbour.auth_token }), 403);
  expectTheirError(
    await workspace.beat(
      {},
      { bearer: (await startMachine(fixture.url, { join_token: token, name: 'spy' })).credential },
    ),
    401,
  );
  expect(await fixture.status(id)).toBe('ready');
  expectTheirError(await fleet.beat(id, { status: 'offline' }), 404);

  const card = { workspace_id: id, agent_card: { name: 'renamed', skills: ['a'] } };
  const updated = await molecule(fixture.url, token, '/registry/update-card', {
    body: card,
    bearer: workspace.auth_token,
  });
  expect(updated.body).toEqual({ status: 'updated' });
  const report = await fixture.fact((await fixture.node(id)).node_id, 'client.said');
  expect(report.data.said).toEqual({ agent_card: card.agent_card });
});

it('degrades a workspace at an error rate of 0.5 or when wedged, and makes it ready below 0.1', async () => {
  const sick = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c03';
  const { beat } = await startWorkspace(fixture.url, token, sick);
  const reports: [object, string][] = [
    [{ error_rate: 0.49 }, 'ready'],
    [{ error_rate: 0.5, sample_error: 'no answer' }, 'degraded'],
    [{ error_rate: 0.3 }, 'degraded'],
    [{ error_rate: 0.09 }, 'ready'],
    [{ error_rate: 0, runtime_state: 'wedged' }, 'degraded'],
    [{ error_rate: 0.2, runtime_state: 'idle' }, 'degraded'],
    [{ error_rate: 0, runtime_state: null }, 'ready'],
  ];
  for (const [report, status] of reports) {
    expect((await beat(report)).status).toBe(200);
    expect(await fixture.status(sick), JSON.stringify(report)).toBe(status);
  }
  await beat({
    error_rate: 17,
    active_tasks: -1,
    monthly_spend: 12.5,
    current_task: 'think',
    secret: 'hush-hush-hush',
  });
  await until('the unknown values in the report', async () => {
    const words = JSON.stringify((await fixture.node(sick)).reported);
    return words.includes('12.5') && words.includes('think') && words.includes('17') && !words.includes('hush');
  });
  expect(await fixture.status(sick)).toBe('ready');
  const fact = await fixture.fact((await fixture.node(sick)).node_id, 'client.said');
  expect(fact.data.said).toEqual({ secret: '[struck out]' });
});

const refused = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c04';

const badBodies: [string, string, unknown][] = [
  ['no id', '/registry/register', {}],
  ['an id that is no UUID', '/registry/register', { id: 'workspace' }],
  ['a list as card', '/registry/register', { id: other, agent_card: [] }],
  ['an address that is none', '/registry/register', { id: '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c09', url: 'nowhere' }],
  ['text as error rate', '/registry/heartbeat', { workspace_id: refused, error_rate: 'low' }],
  ['no workspace', '/registry/heartbeat', { error_rate: 0 }],
  ['a list as metadata', '/registry/heartbeat', { workspace_id: refused, runtime_metadata: [] }],
  ['no card', '/registry/update-card', { workspace_id: refused }],
  ['no error', `/admin/workspaces/${id}/bootstrap-failed`, { log_tail: 'x' }],
  ['a number as log', `/admin/workspaces/${id}/bootstrap-failed`, { error: 'x', log_tail: 1 }],
];

it('refuses fields of the wrong type, without a change', async () => {
  const { auth_token: bearer } = await startWorkspace(fixture.url, others, refused);
  const before = await fixture.tables.snapshot();
  for (const [what, path, body] of badBodies) {
    const isBound = path === '/registry/heartbeat' || path === '/registry/update-card';
    expectTheirError(await molecule(fixture.url, others, path, { body, ...(isBound && { bearer }) }), 400, what);
  }
  expect(await fixture.tables.snapshot()).toEqual(before);
});

it('rescues a failed workspace at its heartbeat, and fails a re-enrolment when its watcher reports a crash', async () => {
  const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c07';
  const { token: timed } = await protocolPool(fixture, 'timed', {
    budgets: { offline_seconds: 0.5 },
    heartbeat: { stale_after_seconds: 1 },
  });
  const waitForStatus = (status: string) =>
    until(`the workspace to be ${status}`, async () => {
      const node = await fixture.node(name);
      return node.status === status ? node : undefined;
    });
  const { beat, auth_token } = await startWorkspace(fixture.url, timed, name);
  /** Simulates the silence of three assumed intervals, which would take a minute and a half. */
  const simulateSilence = async () => {
    await fixture.pace(name, { interval_seconds: 30, stale_seconds: 90 });
    // An earlier heartbeat may be stored after this, with its stale time.
    await until('the workspace to be failed', async () => {
      await fixture.tables.query(
        `update heartbeats set stale_seconds = 0.1 where node_instance_id = (select node_instance_id from nodes where name = $1)`,
        [name],
      );
      return (await fixture.node(name)).status === 'failed';
    });
  };
  await beat();
  await simulateSilence();
  await beat();
  const { node_id } = await waitForStatus('ready');
  const changes = await until('the changes on the timeline', async () => {
    const { items } = await fixture.client.call('node-timeline', {
      params: { id: node_id },
      query: { order: 'oldest' },
    });
    const changes = items.flatMap(({ data }) => (data.to ? [`${data.by} ${data.to}`] : []));
    return changes.length >= 7 ? changes : undefined;
  });
  expect(changes.slice(2)).toEqual([
    'claim-ready ready',
    'liveness offline',
    'offline-deadline failed',
    'late-registration starting',
    'claim-ready ready',
  ]);

  await simulateSilence();
  const { operation } = await fixture.client.call('node-act', {
    params: { id: node_id, action: 're-enroll' },
    body: { reason: 'it lost its token' },
  });
  await waitForStatus('provisioning');
  const panic = { error: 'it never came up', log_tail: 'Kernel panic - not syncing: VFS' };
  await molecule(fixture.url, timed, `/admin/workspaces/${name}/bootstrap-failed`, { body: panic });
  const failed = await waitForStatus('failed');
  expect(failed.verdict).toMatchObject({ rule: 'provision-error', reason: expect.stringContaining('kernel panicked') });
  const ended = await until('the operation to have ended', async () => {
    const found = await fixture.client.call('operation-get', { params: { id: operation?.workflow_id ?? '' } });
    return found.status === 'failed' ? found : undefined;
  });
  expect(ended.error).toMatchObject({ code: 'kernel_panic' });

  expectTheirError(await beat(), 409, 'a heartbeat of the former instance');
  const again = await startWorkspace(fixture.url, timed, name, {}, { bearer: auth_token });
  expect(again.auth_token).not.toBe(auth_token);
  await again.beat();
  await waitForStatus('ready');
});

it('accepts a crash report of a watcher only for workspaces of its pool', async () => {
  const failed = `/admin/workspaces/${id}/bootstrap-failed`;
  const found = { error: 'it did not come up', log_tail: `${'y'.repeat(20_000)}\nNo space left on device` };
  expect((await molecule(fixture.url, token, failed, { body: found })).status).toBe(200);
  const { node_id, status } = await fixture.node(id);
  const diagnosis = await fixture.fact(node_id, 'bootstrap.diagnosis');
  expect(diagnosis.origin).toBe('report');
  expect(diagnosis.data).toMatchObject({ code: 'disk_full', certain: false, error: found.error });
  expect(String(diagnosis.data.log_tail).length).toBe(8192);
  expect(status).toBe('ready');
  expectTheirError(await molecule(fixture.url, 'swj_wrong', failed, { body: found }), 401);
  const nobody = `/admin/workspaces/${other.replace('02', '77')}/bootstrap-failed`;
  expectTheirError(await molecule(fixture.url, token, nobody, { body: found }), 404);
});

it('answers unknown calls with 404 in the molecule format', async () => {
  for (const path of ['/registry/discover', '/registry', '/admin/workspaces', '', '/workspaces/1'])
    expectTheirError(await molecule(fixture.url, token, path, { body: {} }), 404, path);
});

describe('a token', () => {
  it('in an address is in no log, no evidence, no trace and no answer', async () => {
    // A token of another shape shows that redaction does not depend on the shape.
    const plain = 'a-plain-word-that-was-meant-to-be-secret';
    const traced = { headers: { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' } };
    const answers = [
      await fleet.call('POST', '/nodes/register', nodeRegistration('discreet'), traced),
      await fleet.call('POST', '/nodes/discreet/heartbeat', { status: 'ready' }, traced),
    ];
    for (const secret of [token, plain])
      for (const path of [
        '/api/v1/nodes',
        '/api/v1/nothing',
        '/nothing',
        '',
        '/api/v1/nodes/%ZZ',
        '/api/v1/nodes/x/status?a=1',
      ])
        answers.push(
          await send(fixture.url, 'GET', `/compat/agentfield/${secret}${path}`, traced),
          await molecule(fixture.url, secret, path, { body: {}, ...traced }),
        );
    const spans = await until('the spans to arrive', () =>
      collector.spans.some(({ name }) => name === 'agentfield-node-heartbeat')
        ? JSON.stringify(collector.spans)
        : undefined,
    );
    await until('evidence of the denial', async () => {
      const rows = await fixture.tables.query(
        `select 1 from evidence where data ->> 'operation' = 'agentfield-node-list' and kind = 'request.denied'`,
      );
      return rows.length > 0;
    });
    const [kept] = await fixture.tables.query<{ text: string }>(
      `select string_agg(e::text, ' ') as text from evidence e`,
    );
    const texts = [
      log,
      spans,
      kept?.text ?? '',
      ...answers.map(({ text, headers }) => text + JSON.stringify([...headers])),
    ];
    for (const secret of [plain, token, others, fixture.token])
      expect(
        texts.map((text) => text.includes(secret)),
        secret,
      ).toEqual(texts.map(() => false));
    expect(log).toContain('agentfield-node-heartbeat');
  });

  it('of a workspace is in no log and no evidence either', async () => {
    const workspace = await startWorkspace(fixture.url, token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c05');
    await workspace.beat({ sample_error: `refused: ${workspace.auth_token}`, note: workspace.auth_token });
    const [kept] = await fixture.tables.query<{ text: string }>(
      `select string_agg(e::text, ' ') as text from evidence e`,
    );
    expect([log, kept?.text ?? ''].map((text) => text.includes(workspace.auth_token))).toEqual([false, false]);
  });

  it('is refused after it was revoked', async () => {
    const { token: lost, token_id } = await protocolPool(fixture, 'fleet');
    const client = agentField(fixture.url, lost);
    await client.register('scout');
    expect((await client.beat('scout')).status).toBe(200);
    await fixture.client.call('join-token-delete', { params: { pool: 'fleet', id: token_id } });
    await until('the token to be refused', async () => (await client.beat('scout')).status === 401);
    expect((await fleet.beat('scout')).status).toBe(200);
  });
});

it('answers a heartbeat without a query, while all tables are locked', async () => {
  const workspace = await startWorkspace(fixture.url, token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c06');
  await workspace.beat();
  await fleet.register('steady', { lifecycle_status: 'ready' });
  await fleet.beat('steady', { status: 'ready' });
  const beats = async () => {
    const statuses = new Set<number>();
    for (let beat = 0; beat < 3; beat++) {
      statuses.add((await fleet.beat('steady', { status: 'ready', timestamp: String(beat) })).status);
      statuses.add((await workspace.beat()).status);
    }
    return [...statuses].join();
  };
  // Evidence of the registration arrives later and causes one more read, and after that none. A
  // read while the tables are locked one by one could deadlock with us.
  await until('heartbeats to be answered while the tables are locked', async () => {
    await fixture.tables.query('begin');
    try {
      await fixture.tables.query('lock table nodes, instances, join_tokens, heartbeats in access exclusive mode');
    } catch {
      await fixture.tables.query('rollback');
      return false;
    }
    const answered = beats();
    const inTime = await Promise.race([answered, pause(systemClock, 2_000).then(() => 'too late')]);
    await fixture.tables.query('rollback');
    await answered;
    return inTime === '200';
  });
});
