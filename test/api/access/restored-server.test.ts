/** After a restore, a server refuses every change by a person that is not marked as safe. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RouteDeclaration, waitsForRestoration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { openRestoration } from '../../../src/store/backup/restorations.ts';
import { recordEvidence } from '../../../src/store/evidence/evidence.ts';
import { openDatabase } from '../../../src/store/pg/database.ts';
import { withClient } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem, type Input } from '../support/calls.ts';
import { examplesFor } from '../support/examples.ts';
import { type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
let examples: Record<OperationName, Input>;

const names = Object.keys(routes) as OperationName[];
const routeOf = (name: OperationName): RouteDeclaration => routes[name];
const isPersonsChange = (name: OperationName) => {
  const { access, method, reads_only } = routeOf(name);
  return access.kind === 'person' && method !== 'GET' && !reads_only;
};
/** These routes change neither a machine nor its row. */
const allowed: OperationName[] = [
  'evidence-create',
  'join-token-delete',
  'log-level-set',
  'maintenance-delete',
  'maintenance-put',
  'node-ping',
  'restoration-end',
  'session-delete',
  'session-revoke',
  'token-create',
  'token-delete',
];
/** Leaves out the sweeps that change rows after a restore. */
const quietSweeps: Composition['sweeps'] = (registry) =>
  registry.filter(({ name }) => !['ingest-watch', 'restored-machines'].includes(name));
const call = (name: OperationName) => callRoute(fixture.url, name, examples[name], { bearer: fixture.token });
const codeOf = async (name: OperationName) => (await call(name)).body.code;

beforeAll(async () => {
  fixture = await tenantFixture({ composition: { sweeps: quietSweeps } });
  const join = await fixture.client.call('join-token-create', { params: { pool: 'outside' } });
  const ping = await fixture.client.call('node-ping', { params: { id: fixture.acme.machine.node_id }, body: {} });
  examples = examplesFor(fixture, { join_token_id: join.token_id, task_id: ping.task_id });
  // A server that starts after a restore does the same.
  await withClient(fixture.database_url, (client) => openRestoration(client, 'other_cluster'));
  const db = openDatabase({ url: fixture.database_url, max_connections: 1 });
  const summary = 'The database was restored.';
  await recordEvidence(db, [{ at: new Date(), layer: 'store', kind: 'evidence.restored', summary }]);
  await db.close();
  await until('the server to observe', async () => (await codeOf('fleet-recover')) === 'restoration_open');
});
afterAll(() => fixture.stop());

it('allows only these changes', () => {
  const marked = names.filter((name) => isPersonsChange(name) && !waitsForRestoration(routeOf(name)));
  expect(marked.sort()).toEqual(allowed);
});

describe('while the restoration is open', () => {
  it.each(names.filter((name) => waitsForRestoration(routeOf(name))))('%s is refused', async (name) => {
    const before = await fixture.tables.snapshot();
    expectProblem(await call(name), 'restoration_open', name);
    expect(await fixture.tables.snapshot(), `${name} changed something`).toEqual(before);
  });

  it.each(allowed.filter((name) => name !== 'restoration-end'))('%s is served', async (name) => {
    const { status, body } = await call(name);
    expect(body.code).not.toBe('restoration_open');
    expect(status).not.toBe(500);
  });

  const lists = names.filter((name) => routeOf(name).method === 'GET' && routeOf(name).access.kind === 'person');
  it.each(lists.filter((name) => name !== 'stream-open'))('%s is served', async (name) => {
    const { status, body } = await call(name);
    expect(body.code).not.toBe('restoration_open');
    expect(status).not.toBe(500);
  });

  it('an agent gets a ping, and no earlier task', async () => {
    const { machine } = fixture.acme;
    const { node_id, node_instance_id } = machine;
    await fixture.tables.query(
      `insert into tasks (
         task_id, node_id, node_instance_id, type, params, status, lease_seconds, expires_at, created_at)
       values ('task_earlier', $1, $2, 'release.stop', '{}', 'queued', 60, now() + interval '1 day', '2020-01-01')`,
      [node_id, node_instance_id],
    );
    await fixture.client.call('node-ping', { params: { id: node_id }, body: {} });
    const next = async () => (await machine.call('agent-task-next', { query: { wait: 0.2 } })).body.task;
    expect(await next()).toMatchObject({ type: 'ping' });
    expect(await next()).toBeNull();
  });

  it('the state and the problems of the server name the restoration', async () => {
    expect(await fixture.client.call('restoration-get', {})).toMatchObject({
      observing: true,
      newest: { sign: 'other_cluster', ended_at: null, differences: { came: 0 } },
    });
    const { problems } = await fixture.client.call('server-status', {});
    expect(problems.map(({ code }) => code)).toContain('database_restored');
  });
});

it('does not fence a machine that the rows show as given up', async () => {
  const { machine } = fixture.acme;
  const db = openDatabase({ url: fixture.database_url, max_connections: 1 });
  await db.query(`update nodes set status = 'failed', deadline_at = now() - interval '1 h' where node_id = $1`, [
    machine.node_id,
  ]);
  await db.close();
  const { status, body } = await machine.call('agent-register', { body: { version: '1.0.0' } });
  expect([status, body.code]).toEqual([425, 'enrollment_pending']);
});

it('serves changes again once a person has ended the restoration', async () => {
  const { client } = fixture;
  const trust = { trust_free: true, trust_unconfirmed: true };
  const ended = await client.call('restoration-end', { body: { reason: 'x', force: true, ...trust } });
  expect(ended).toMatchObject({ quarantined: 0 });
  await until('changes to be served', async () => (await codeOf('fleet-recover')) !== 'restoration_open');
  expect((await client.call('restoration-get', {})).newest).toMatchObject({ end_reason: 'x' });
  expect(await codeOf('restoration-end')).toBe('action_illegal');
});
