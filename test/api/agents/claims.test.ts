/** A report that a machine may not make is refused with a code of its own, and changes nothing. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { moment, systemClock } from '../../../src/base/clock.ts';
import { type ErrorCode, errorCatalogue } from '../../../src/contract/errors/errors.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { until } from '../../support/until.ts';
import { type Answer, callRoute, expectProblem } from '../support/calls.ts';
import type { Machine } from '../support/machine.ts';
import { readyMachine, reenroll, type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
let fencedMachine: Machine;
beforeAll(async () => {
  fixture = await tenantFixture();
  fencedMachine = await readyMachine(fixture, 'replaced');
  await fencedMachine.beat('stopping');
  await reenroll(fixture, fencedMachine);
  await until('the replica to refuse the instance', async () => (await fencedMachine.beat()).status === 409);
});
afterAll(() => fixture.stop());

const inMinutes = (minutes: number) => moment(systemClock.nowMs() + minutes * 60_000).toISOString();
/** The server tolerates clocks that are five minutes apart. */
const tooFarAhead = () => inMinutes(6);
const text = { 'content-type': 'text/plain' };

/** The last heartbeat of each instance. Snapshots omit these rows. */
const readHeartbeats = () => fixture.tables.query('select * from heartbeats order by node_instance_id');

/** Waits until every earlier heartbeat is stored. Heartbeats are stored in order, in batches. */
async function waitForWrites(): Promise<void> {
  const witness = fixture.globex.machine;
  const health_score = 1 + Math.floor(Math.random() * 1e6) / 1e5;
  await witness.call('agent-heartbeat', { body: { health_score } });
  await until('the heartbeat to be stored', async () =>
    JSON.stringify(await readHeartbeats()).includes(`"health_score":${health_score}`),
  );
}

async function expectRefusedWithoutChange(request: () => Promise<Answer>, code: ErrorCode): Promise<void> {
  await waitForWrites();
  const readOtherHeartbeats = async () =>
    JSON.stringify((await readHeartbeats()).filter(isNot(fixture.globex.machine)));
  const [tablesBefore, beatsBefore] = [await fixture.tables.snapshot(), await readOtherHeartbeats()];
  const answer = await request();
  expectProblem(answer, code);
  const { owner_layer, detail_layer } = { detail_layer: undefined, ...errorCatalogue[code] };
  expect([answer.body.owner_layer, answer.body.detail_layer]).toEqual([owner_layer, detail_layer]);
  await waitForWrites();
  expect(await fixture.tables.snapshot()).toEqual(tablesBefore);
  expect(await readOtherHeartbeats()).toBe(beatsBefore);
}
const isNot = (machine: Machine) => (row: object) =>
  (row as { node_instance_id?: string }).node_instance_id !== machine.node_instance_id;

const callAsAcme = (name: OperationName, body: unknown) => fixture.acme.machine.call(name, { body });
const beat = (report: object) => callAsAcme('agent-heartbeat', { ...report });
const boot = (stage: object) => callAsAcme('agent-boot', { stages: [{ name: 'early', seconds: 1 }, stage] });
const join = (stage: object) =>
  callRoute(fixture.url, 'agent-register', {
    body: { join_token: fixture.join_token, name: 'newcomer', version: '1', boot: { stages: [stage] } },
  });
const batch = (...beats: object[]) =>
  callRoute(fixture.url, 'agent-heartbeats', {
    body: { beats: beats.map((report) => ({ credential: fixture.acme.machine.credential, ...report })) },
  });

describe('an impossible report', () => {
  it.each<[string, () => Promise<Answer>, ErrorCode]>([
    ['an unknown status', () => beat({ status: 'splendid' }), 'claim_status_unknown'],
    ['a status that only the server sets', () => beat({ status: 'retired' }), 'claim_status_unknown'],
    ['a status that is not a string', () => beat({ status: 7 }), 'claim_status_unknown'],
    ['a negative score', () => beat({ status: 'stopping', health_score: -1 }), 'claim_out_of_range'],
    ['a score above the maximum', () => beat({ status: 'stopping', health_score: 101 }), 'claim_out_of_range'],
    ['a negative rate', () => beat({ status: 'degraded', error_rate: -0.1 }), 'claim_out_of_range'],
    ['an error rate above one', () => beat({ status: 'degraded', error_rate: 1.1 }), 'claim_out_of_range'],
    ['a negative number of tasks', () => beat({ active_tasks: -1 }), 'claim_out_of_range'],
    ['a score that is not a number', () => beat({ status: 'stopping', health_score: 'low' }), 'invalid_request'],
    ['a stage with a negative duration', () => boot({ name: 'pull', seconds: -1 }), 'claim_out_of_range'],
    ['a negative duration in a registration', () => join({ name: 'pull', seconds: -1 }), 'claim_out_of_range'],
    [
      'a stage from the future',
      () => boot({ name: 'pull', seconds: 1, started_at: tooFarAhead() }),
      'claim_from_future',
    ],
    [
      'a stage from the future in a registration',
      () => join({ name: 'pull', seconds: 1, started_at: tooFarAhead() }),
      'claim_from_future',
    ],
    ['one bad status in a batch', () => batch({ status: 'stopping' }, { status: 'splendid' }), 'claim_status_unknown'],
    ['one bad score in a batch', () => batch({ status: 'stopping' }, { health_score: -1 }), 'claim_out_of_range'],
  ])('is refused without a change: %s', (_, request, code) => expectRefusedWithoutChange(request, code));

  it('is refused with the code of its first error and a list of all errors', async () => {
    const answer = await beat({ status: 'splendid', health_score: -1 });
    expectProblem(answer, 'claim_status_unknown');
    expect(answer.body.errors).toEqual([
      expect.objectContaining({ path: '/body/status' }),
      expect.objectContaining({ path: '/body/health_score' }),
    ]);
  });

  it('accepts a start time four minutes ahead, because clocks may differ', async () => {
    const started_at = inMinutes(4);
    expect((await boot({ name: 'ahead', seconds: 1, started_at })).status).toBe(200);
    const { node_id } = fixture.acme.machine;
    const { stages } = await fixture.client.call('node-boot', { params: { id: node_id } });
    expect(stages.find(({ name }) => name === 'ahead')).toMatchObject({ started_at });
  });
});

describe('the instance id in a heartbeat', () => {
  const asGlobex = () => ({ node_instance_id: fixture.globex.machine.node_instance_id, status: 'stopping' });

  it('of another node is refused, and changes neither node', () =>
    expectRefusedWithoutChange(() => beat(asGlobex()), 'credential_mismatch'));

  it('of another node refuses only that heartbeat of a batch', async () => {
    const { node_instance_id } = fixture.acme.machine;
    const { status, body } = await batch(asGlobex(), { node_instance_id, health_score: 77 });
    expect(status).toBe(200);
    expect(body.results).toEqual([
      expect.objectContaining({ code: 'credential_mismatch', status: 403 }),
      expect.objectContaining({ node_status: 'ready' }),
    ]);
  });

  it('of the sender’s node is accepted, and is not stored in the report', async () => {
    const { node_instance_id, node_id } = fixture.acme.machine;
    expect((await beat({ node_instance_id, health_score: 78 })).status).toBe(200);
    const node = await until('the report to be shown', async () => {
      const current = await fixture.client.call('node-get', { params: { id: node_id } });
      return current.reported?.health_score === 78 ? current : undefined;
    });
    expect(node.reported).not.toHaveProperty('node_instance_id');
  });
});

describe('a fenced instance', () => {
  it.each<[OperationName, unknown]>([
    ['agent-heartbeat', { status: 'ready' }],
    ['agent-boot', { stages: [{ name: 'late', seconds: 1 }] }],
    ['agent-prerequisites', { results: [{ name: 'disk', ok: false }] }],
    ['agent-evidence', { facts: [{ at: inMinutes(0), layer: 'node', kind: 'late', summary: 'late' }] }],
    ['agent-register', { version: '2' }],
  ])('is refused without a change: %s', (name, body) =>
    expectRefusedWithoutChange(() => fencedMachine.call(name, { body }), 'instance_fenced'),
  );

  it('is refused in a batch without a change', async () => {
    await waitForWrites();
    const snapshotBefore = await fixture.tables.snapshot();
    const { body } = await batch({ credential: fencedMachine.credential, status: 'ready' });
    expect(body.results).toEqual([expect.objectContaining({ code: 'instance_fenced', status: 409 })]);
    await waitForWrites();
    expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
  });
});

describe('a boot report in the format of cloud-init', () => {
  const report = (raw: string) => fixture.acme.machine.call('agent-boot', {}, { raw, headers: text });

  it('is stored like any other boot report', async () => {
    const raw = '-- Boot Record 01 --\n     01.20300s (init-network/config-growpart)\n\n1 boot records analyzed\n';
    expect((await report(raw)).status).toBe(200);
    const { stages } = await fixture.client.call('node-boot', { params: { id: fixture.acme.machine.node_id } });
    const growpart = { name: 'config-growpart', parent: 'init-network', seconds: 1.203 };
    expect(stages).toContainEqual(expect.objectContaining(growpart));
  });

  it('keeps the start of each stage, if the report has one', async () => {
    expect((await report('|`->config-ssh ran successfully @04.79500s +00.50000s\n')).status).toBe(200);
    const { stages } = await fixture.client.call('node-boot', { params: { id: fixture.acme.machine.node_id } });
    expect(stages).toContainEqual(expect.objectContaining({ name: 'config-ssh', seconds: 0.5, starts_seconds: 4.795 }));
  });

  it.each<[string, string, ErrorCode]>([
    ['an unknown line', '     01.20300s (a/b)\nKernel panic\n', 'invalid_request'],
    ['no content', '', 'invalid_request'],
    ['a stage with a negative duration', '     -01.20300s (a/b)\n', 'claim_out_of_range'],
    ['NUL', '     01.20300s (a/\0)\n', 'invalid_request'],
  ])('is refused with %s', (_, raw, code) => expectRefusedWithoutChange(() => report(raw), code));

  it('has a content type that other routes refuse', async () => {
    const answer = await fixture.acme.machine.call('agent-evidence', {}, { raw: 'hello', headers: text });
    expectProblem(answer, 'unsupported_media_type');
  });
});
