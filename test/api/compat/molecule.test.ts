/**
 * Tests the molecule protocol, and the tokens of both foreign protocols: which calls a token
 * allows, and that it appears in no output.
 */

import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/calls.ts';
import { type Collector, startCollector } from '../support/collector.ts';
import {
  type AgentFieldClient,
  agentFieldClient,
  createProtocolPool,
  expectProtocolError,
  nodeRegistration,
  type ProtocolFixture,
  postToMolecule,
  protocolFixture,
  startWorkspace,
} from '../support/compat-clients.ts';
import { startMachine } from '../support/machine.ts';

let fixture: ProtocolFixture;
let collector: Collector;
let fleet: AgentFieldClient;
let token: string;
let otherToken: string;
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
  ({ join_token: token, other_join_token: otherToken } = fixture);
  fleet = agentFieldClient(fixture.url, token);
});
afterAll(async () => {
  await fixture.stop();
  await collector.stop();
});

const url = 'http://127.0.0.1:9000';
const id = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c01';
const otherId = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c02';

it('refuses an invalid address, and names the field', async () => {
  const body = { id: otherId, url: 'not an address' };
  const answer = await send(fixture.url, 'POST', '/compat/molecule/registry/register', { bearer: token, body });
  expectProtocolError(answer, 400);
  expect(answer.body.error).toContain('/body/url ');
});

it('issues a token once at registration, and accepts heartbeats only with it', async () => {
  const workspace = await startWorkspace(fixture.url, token, id, { url });
  expect(await fixture.readStatus(id)).toBe('starting');
  expect((await workspace.beat()).body).toEqual({ status: 'ok' });
  expect(await fixture.readNode(id)).toMatchObject({ status: 'ready', verdict: null, endpoint: url });
  await fixture.waitForPace(id, { interval_seconds: 30, stale_seconds: 24 * 3600 });

  expectProtocolError(await workspace.beat({}, {}), 401);
  expectProtocolError(await workspace.beat({}, { bearer: token }), 401);
  expectProtocolError(await workspace.beat({}, { bearer: 'swc_wrong' }), 401);
  expectProtocolError(await postToMolecule(fixture.url, token, '/registry/register', { body: { id } }), 401);
  const repeatedReply = await postToMolecule(fixture.url, token, '/registry/register', {
    body: { id },
    bearer: workspace.auth_token,
  });
  expect(repeatedReply.body).toEqual({ status: 'registered' });
  const otherWorkspace = await startWorkspace(fixture.url, token, otherId);
  expectProtocolError(await workspace.beat({ runtime_state: 'wedged' }, { bearer: otherWorkspace.auth_token }), 403);
  expectProtocolError(
    await workspace.beat(
      {},
      { bearer: (await startMachine(fixture.url, { join_token: token, name: 'spy' })).credential },
    ),
    401,
  );
  expect(await fixture.readStatus(id)).toBe('ready');
  expectProtocolError(await fleet.beat(id, { status: 'offline' }), 404);

  const card = { workspace_id: id, agent_card: { name: 'renamed', skills: ['a'] } };
  const updateReply = await postToMolecule(fixture.url, token, '/registry/update-card', {
    body: card,
    bearer: workspace.auth_token,
  });
  expect(updateReply.body).toEqual({ status: 'updated' });
  const report = await fixture.waitForFact((await fixture.readNode(id)).node_id, 'client.said');
  expect(report.data.said).toEqual({ agent_card: card.agent_card });
});

it('degrades a workspace at an error rate of 0.5 or when wedged, and makes it ready below 0.1', async () => {
  const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c03';
  const { beat } = await startWorkspace(fixture.url, token, name);
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
    expect(await fixture.readStatus(name), JSON.stringify(report)).toBe(status);
  }
  await beat({
    error_rate: 17,
    active_tasks: -1,
    monthly_spend: 12.5,
    current_task: 'think',
    secret: 'hush-hush-hush',
  });
  await until('the unknown values in the report', async () => {
    const reportText = JSON.stringify((await fixture.readNode(name)).reported);
    return (
      reportText.includes('12.5') &&
      reportText.includes('think') &&
      reportText.includes('17') &&
      !reportText.includes('hush')
    );
  });
  expect(await fixture.readStatus(name)).toBe('ready');
  const fact = await fixture.waitForFact((await fixture.readNode(name)).node_id, 'client.said');
  expect(fact.data.said).toEqual({ secret: '[struck out]' });
});

const refusedId = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c04';

const badBodies: [string, string, unknown][] = [
  ['no id', '/registry/register', {}],
  ['an id that is not a UUID', '/registry/register', { id: 'workspace' }],
  ['a list as card', '/registry/register', { id: otherId, agent_card: [] }],
  ['an invalid address', '/registry/register', { id: '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c09', url: 'nowhere' }],
  ['text as error rate', '/registry/heartbeat', { workspace_id: refusedId, error_rate: 'low' }],
  ['no workspace', '/registry/heartbeat', { error_rate: 0 }],
  ['a list as metadata', '/registry/heartbeat', { workspace_id: refusedId, runtime_metadata: [] }],
  ['no card', '/registry/update-card', { workspace_id: refusedId }],
  ['no error', `/admin/workspaces/${id}/bootstrap-failed`, { log_tail: 'x' }],
  ['a number as log', `/admin/workspaces/${id}/bootstrap-failed`, { error: 'x', log_tail: 1 }],
];

it('refuses fields of the wrong type, without a change', async () => {
  const { auth_token: bearer } = await startWorkspace(fixture.url, otherToken, refusedId);
  const snapshotBefore = await fixture.tables.snapshot();
  for (const [what, path, body] of badBodies) {
    const needsCredential = path === '/registry/heartbeat' || path === '/registry/update-card';
    expectProtocolError(
      await postToMolecule(fixture.url, otherToken, path, { body, ...(needsCredential && { bearer }) }),
      400,
      what,
    );
  }
  expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
});

it('rescues a failed workspace at its next heartbeat, and fails a re-enrolment when a watcher reports a crash', async () => {
  const name = '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c07';
  const { token: timedToken } = await createProtocolPool(fixture, 'timed', {
    budgets: { offline_seconds: 0.5 },
    heartbeat: { stale_after_seconds: 1 },
  });
  const waitForStatus = (status: string) =>
    until(`the workspace to be ${status}`, async () => {
      const node = await fixture.readNode(name);
      return node.status === status ? node : undefined;
    });
  const { beat, auth_token } = await startWorkspace(fixture.url, timedToken, name);
  /** Simulates the silence of three assumed intervals, which would take a minute and a half. */
  const simulateSilence = async () => {
    await fixture.waitForPace(name, { interval_seconds: 30, stale_seconds: 90 });
    // An earlier heartbeat may be stored after an update and overwrite the stale time.
    await until('the workspace to be failed', async () => {
      await fixture.tables.query(
        `update heartbeats
         set stale_seconds = 0.1
         where node_instance_id = (select node_instance_id from nodes where name = $1)`,
        [name],
      );
      return (await fixture.readNode(name)).status === 'failed';
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
    const allChanges = items.flatMap(({ data }) => (data.to ? [`${data.by} ${data.to}`] : []));
    return allChanges.length >= 7 ? allChanges : undefined;
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
  await postToMolecule(fixture.url, timedToken, `/admin/workspaces/${name}/bootstrap-failed`, { body: panic });
  const failed = await waitForStatus('failed');
  expect(failed.verdict).toMatchObject({ rule: 'provision-error', reason: expect.stringContaining('kernel panicked') });
  const endedOperation = await until('the operation to have ended', async () => {
    const current = await fixture.client.call('operation-get', { params: { id: operation?.workflow_id ?? '' } });
    return current.status === 'failed' ? current : undefined;
  });
  expect(endedOperation.error).toMatchObject({ code: 'kernel_panic' });

  expectProtocolError(await beat(), 409, 'a heartbeat of the former instance');
  const returnedWorkspace = await startWorkspace(fixture.url, timedToken, name, {}, { bearer: auth_token });
  expect(returnedWorkspace.auth_token).not.toBe(auth_token);
  await returnedWorkspace.beat();
  await waitForStatus('ready');
});

it('accepts a crash report of a watcher, but not with a wrong token or about an unknown workspace', async () => {
  const crashReportPath = `/admin/workspaces/${id}/bootstrap-failed`;
  const report = { error: 'it did not come up', log_tail: `${'y'.repeat(20_000)}\nNo space left on device` };
  expect((await postToMolecule(fixture.url, token, crashReportPath, { body: report })).status).toBe(200);
  const { node_id, status } = await fixture.readNode(id);
  const diagnosis = await fixture.waitForFact(node_id, 'bootstrap.diagnosis');
  expect(diagnosis.origin).toBe('report');
  expect(diagnosis.data).toMatchObject({ code: 'disk_full', certain: false, error: report.error });
  expect(String(diagnosis.data.log_tail).length).toBe(8192);
  expect(status).toBe('ready');
  expectProtocolError(await postToMolecule(fixture.url, 'swj_wrong', crashReportPath, { body: report }), 401);
  const unknownWorkspace = `/admin/workspaces/${otherId.replace('02', '77')}/bootstrap-failed`;
  expectProtocolError(await postToMolecule(fixture.url, token, unknownWorkspace, { body: report }), 404);
});

it('answers unknown calls with 404 in the molecule format', async () => {
  for (const path of ['/registry/discover', '/registry', '/admin/workspaces', '', '/workspaces/1'])
    expectProtocolError(await postToMolecule(fixture.url, token, path, { body: {} }), 404, path);
});

describe('a token', () => {
  it('in an address appears in no log, evidence, trace or answer', async () => {
    // A token of another shape shows that redaction does not depend on the shape.
    const plainToken = 'a-plain-word-that-was-meant-to-be-secret';
    const traceOptions = { headers: { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' } };
    const answers = [
      await fleet.call('POST', '/nodes/register', nodeRegistration('discreet'), traceOptions),
      await fleet.call('POST', '/nodes/discreet/heartbeat', { status: 'ready' }, traceOptions),
    ];
    for (const secret of [token, plainToken])
      for (const path of [
        '/api/v1/nodes',
        '/api/v1/nothing',
        '/nothing',
        '',
        '/api/v1/nodes/%ZZ',
        '/api/v1/nodes/x/status?a=1',
      ])
        answers.push(
          await send(fixture.url, 'GET', `/compat/agentfield/${secret}${path}`, traceOptions),
          await postToMolecule(fixture.url, secret, path, { body: {}, ...traceOptions }),
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
    const [evidence] = await fixture.tables.query<{ text: string }>(
      `select string_agg(e::text, ' ') as text from evidence e`,
    );
    const texts = [
      log,
      spans,
      evidence?.text ?? '',
      ...answers.map(({ text, headers }) => text + JSON.stringify([...headers])),
    ];
    for (const secret of [plainToken, token, otherToken, fixture.token])
      expect(
        texts.map((text) => text.includes(secret)),
        secret,
      ).toEqual(texts.map(() => false));
    expect(log).toContain('agentfield-node-heartbeat');
  });

  it('of a workspace appears in no log and no evidence', async () => {
    const workspace = await startWorkspace(fixture.url, token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c05');
    await workspace.beat({ sample_error: `refused: ${workspace.auth_token}`, note: workspace.auth_token });
    const [evidence] = await fixture.tables.query<{ text: string }>(
      `select string_agg(e::text, ' ') as text from evidence e`,
    );
    expect([log, evidence?.text ?? ''].map((text) => text.includes(workspace.auth_token))).toEqual([false, false]);
  });

  it('is refused after it was revoked', async () => {
    const { token: revokedToken, token_id } = await createProtocolPool(fixture, 'fleet');
    const client = agentFieldClient(fixture.url, revokedToken);
    await client.register('scout');
    expect((await client.beat('scout')).status).toBe(200);
    await fixture.client.call('join-token-delete', { params: { pool: 'fleet', id: token_id } });
    await until('the token to be refused', async () => (await client.beat('scout')).status === 401);
    expect((await fleet.beat('scout')).status).toBe(200);
  });
});

it('answers a heartbeat while the tables of nodes and tokens are locked', async () => {
  const workspace = await startWorkspace(fixture.url, token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c06');
  await workspace.beat();
  await fleet.register('steady', { lifecycle_status: 'ready' });
  await fleet.beat('steady', { status: 'ready' });
  const sendBeats = async () => {
    const statuses = new Set<number>();
    for (let beat = 0; beat < 3; beat++) {
      statuses.add((await fleet.beat('steady', { status: 'ready', timestamp: String(beat) })).status);
      statuses.add((await workspace.beat()).status);
    }
    return [...statuses].join();
  };
  // Evidence of the registration arrives later and causes one last read. If that read happens while
  // the tables are being locked one by one, it can deadlock with this transaction.
  await until('heartbeats to be answered while the tables are locked', async () => {
    await fixture.tables.query('begin');
    try {
      await fixture.tables.query('lock table nodes, instances, join_tokens, heartbeats in access exclusive mode');
    } catch {
      await fixture.tables.query('rollback');
      return false;
    }
    const beats = sendBeats();
    const result = await Promise.race([beats, pause(systemClock, 2_000).then(() => 'too late')]);
    await fixture.tables.query('rollback');
    await beats;
    return result === '200';
  });
});
