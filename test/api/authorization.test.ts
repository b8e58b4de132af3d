/** Every route of the table refuses everybody whom it is not for, changes nothing by it, and the refusal is on record. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../src/contract/errors.ts';
import type { Access, RouteDeclaration } from '../../src/contract/route.ts';
import { type OperationName, routes } from '../../src/contract/routes.ts';
import { roles } from '../../src/contract/token.ts';
import { until } from '../support/until.ts';
import { callRoute, expectProblem, type Input, type Sent, send } from './support/calls.ts';
import { readyMachine, type TenantWorld, tenantWorld } from './support/tenants.ts';

let world: TenantWorld;
const bearers = { viewer: '', operator: '', admin: '', expired: '', revoked: '', machine: '', fenced: '' };
let examples: Record<OperationName, Input>;

/** Valid input for each route, about things of the tenant acme, so that nothing but the caller can be wrong. */
function examplesFor({ acme, join_token }: TenantWorld, ids: { join_token_id: string }): Record<OperationName, Input> {
  const allocation = { params: { id: acme.allocation.allocation_id } };
  const node = { params: { id: acme.allocation.node_id ?? '' } };
  const operation = { params: { id: acme.allocation.workflow_id ?? '' } };
  const pool = { params: { pool: 'outside' } };
  const residue = { params: { id: 'res_none' }, body: { reason: 'test' } };
  const task = { params: { id: 'task_none' } };
  return {
    'health-get': {},
    'readiness-get': {},
    'metrics-get': {},
    'overview-get': {},
    'session-create': { body: { token: 'swt_wrong' } },
    'session-get': {},
    'session-delete': {},
    'token-create': { body: { name: 'made', role: 'viewer' } },
    'token-list': {},
    'token-delete': { params: { id: 'tok_none' } },
    'pool-put': { params: { pool: 'fresh' }, body: { driver: 'external' } },
    'pool-get': pool,
    'pool-list': {},
    'pool-delete': pool,
    'join-token-create': { ...pool, body: {} },
    'join-token-list': pool,
    'join-token-delete': { params: { pool: 'outside', id: ids.join_token_id } },
    'allocation-create': { body: { pool: 'outside', name: 'more' } },
    'allocation-list': {},
    'allocation-get': allocation,
    'allocation-release': allocation,
    'allocation-retry': allocation,
    'allocation-actions': allocation,
    'allocation-act': {
      params: { ...allocation.params, action: 'release' },
      body: { reason: 'test', dry_run: true },
    },
    'node-create': { body: { pool: 'outside' } },
    'node-list': {},
    'node-get': node,
    'node-explain': node,
    'node-actions': node,
    'node-act': {
      params: { id: node.params.id, action: 'extend-deadline' },
      body: { reason: 'test', seconds: 60, dry_run: true },
    },
    'sweep-list': {},
    'brake-get': {},
    'brake-resume': { body: { reason: 'test' } },
    'maintenance-list': {},
    'maintenance-put': {
      params: { name: 'fresh' },
      body: { zone: 'nowhere', ends_at: '2099-01-01T00:00:00Z', reason: 'test' },
    },
    'maintenance-delete': { params: { name: 'nothing' } },
    'drift-list': {},
    'drift-repair': { params: { id: 'find_none' }, body: { reason: 'test' } },
    'drift-accept': { params: { id: 'find_none' }, body: { reason: 'test' } },
    'residue-list': {},
    'residue-adopt': residue,
    'residue-delete': residue,
    'residue-verify': residue,
    'node-timeline': node,
    'node-logs': node,
    'node-boot': node,
    'operation-list': {},
    'operation-get': operation,
    'operation-cancel': operation,
    'operation-retry': operation,
    'fleet-recover': { body: { action: 'retry-release', filter: {}, reason: 'test' } },
    'timeline-get': { query: { allocation_id: acme.allocation.allocation_id } },
    'audit-list': {},
    'stream-open': { query: { cursor: '0-0' } },
    'agent-register': { body: { join_token: `${join_token}x`, name: 'stranger', version: '1' } },
    'agent-heartbeat': { body: { status: 'stopping' } },
    'agent-heartbeats': { body: { beats: [{ credential: 'swc_wrong', status: 'stopping' }] } },
    'agent-task-next': {},
    'agent-task-progress': { ...task, body: {} },
    'agent-task-result': { ...task, body: { status: 'succeeded' } },
    'agent-logs': {},
    'agent-boot': { body: { stages: [{ name: 'more', seconds: 1 }] } },
    'agent-prerequisites': { body: { results: [{ name: 'more', ok: true }] } },
    'agent-evidence': {
      body: { facts: [{ at: '2030-01-01T00:00:00Z', layer: 'node', kind: 'more', summary: 'more' }] },
    },
    'agent-credential-rotate': {},
  };
}

/** An open stream does not end by itself. */
const ownTests: OperationName[] = ['stream-open'];
const names = Object.keys(routes) as OperationName[];
const accessOf = (name: OperationName): Access => (routes[name] as RouteDeclaration).access;
const withAccess = <K extends Access['kind']>(kind: K) =>
  names.flatMap((name) => {
    const access = accessOf(name);
    return access.kind === kind ? [{ name, access: access as Extract<Access, { kind: K }> }] : [];
  });

beforeAll(async () => {
  world = await tenantWorld();
  for (const role of roles) bearers[role] = (await world.tokenFor(role)).token;
  bearers.expired = (await world.tokenFor('admin', { ttl_seconds: 0.001 })).token;
  const revoked = await world.tokenFor('admin');
  await world.client.call('token-delete', { params: { id: revoked.token_id } });
  bearers.revoked = revoked.token;
  bearers.machine = world.acme.machine.credential;
  const join = await world.client.call('join-token-create', { params: { pool: 'outside' } });
  examples = examplesFor(world, { join_token_id: join.token_id });
  // A machine whose node was made anew: the old instance is fenced.
  const old = await readyMachine(world, 'twice');
  bearers.fenced = old.credential;
  await old.beat('stopping');
  await readyMachine(world, 'twice');
});
afterAll(() => world.stop());

async function refuses(name: OperationName, sent: Sent, code: ErrorCode | ErrorCode[]): Promise<void> {
  const before = await world.tables.snapshot();
  const answer = await callRoute(world.url, name, examples[name], sent);
  expectProblem(answer, code, `${name} ${JSON.stringify(sent).slice(0, 80)}`);
  expect(await world.tables.snapshot(), `${name} changed something`).toEqual(before);
}

it('has exactly the public routes of the specification', async () => {
  expect(withAccess('public').map(({ name }) => name)).toEqual(['health-get', 'readiness-get']);
  for (const path of ['/healthz', '/readyz', '/docs', '/openapi.json', '/docs/errors'])
    expect((await send(world.url, 'GET', path)).status, path).toBe(200);
});

describe.each(withAccess('person'))('$name', ({ name, access }) => {
  it('refuses whoever is nobody', async () => {
    await refuses(name, {}, 'token_missing');
    await refuses(name, { bearer: 'swt_wrong' }, 'token_unknown');
    await refuses(name, { headers: { authorization: 'Basic YTpi' } }, 'token_unknown');
    await refuses(name, { headers: { authorization: "Bearer ' or 1=1 --" } }, 'token_unknown');
    await refuses(name, { headers: { cookie: 'slipway_session=sws_forged.forged' } }, 'token_unknown');
    await refuses(name, { bearer: bearers.expired }, 'token_expired');
    await refuses(name, { bearer: bearers.revoked }, 'token_unknown');
    await refuses(name, { bearer: bearers.machine }, 'token_unknown');
  });

  it('refuses a foreign page', async () => {
    await refuses(name, { bearer: bearers.admin, headers: { origin: 'https://elsewhere.example' } }, 'origin_refused');
    await refuses(name, { bearer: bearers.admin, headers: { origin: 'null' } }, 'origin_refused');
  });

  const lower = roles.slice(0, roles.indexOf(access.role));
  if (lower.length > 0)
    it('refuses every lower role', async () => {
      for (const role of lower) await refuses(name, { bearer: bearers[role] }, 'role_insufficient');
    });

  if (access.tenants === 'none')
    it('refuses the token of a tenant', async () => {
      const { token } = await world.tokenFor(access.role, { tenant: 'acme' });
      await refuses(name, { bearer: token }, 'scope_insufficient');
    });

  const { method } = routes[name];
  if (method === 'GET' && name !== 'stream-open')
    it('answers whom it is for', async () => {
      expect((await callRoute(world.url, name, examples[name], { bearer: bearers[access.role] })).status).toBe(200);
    });

  // What makes something new for the caller has nothing of another tenant to show; the stream has its own test.
  const namesSomething = method === 'GET' || (routes[name] as RouteDeclaration).params !== undefined;
  if (access.tenants === 'own' && namesSomething && !ownTests.includes(name))
    it('shows and gives another tenant nothing', async () => {
      const { acme, globex } = world;
      const before = await world.tables.snapshot();
      const answer = await callRoute(world.url, name, examples[name], { bearer: globex.token });
      if (examples[name].params)
        expectProblem(answer, ['allocation_not_found', 'node_not_found', 'operation_not_found']);
      expect(await world.tables.snapshot()).toEqual(before);
      const { allocation, machine } = acme;
      for (const own of [allocation.allocation_id, machine.node_id, machine.node_instance_id, 'acme'])
        expect(answer.text, `${name} shows ${own}`).not.toContain(own);
    });
});

describe.each(withAccess('agent'))('$name', ({ name }) => {
  it('refuses whoever is no live machine', async () => {
    await refuses(name, {}, 'token_missing');
    await refuses(name, { bearer: 'swc_wrong' }, 'credential_unknown');
    await refuses(name, { bearer: bearers.admin }, 'credential_unknown');
    await refuses(name, { bearer: world.acme.token }, 'credential_unknown');
    await refuses(name, { headers: { cookie: 'slipway_session=sws_forged.forged' } }, 'token_missing');
    await refuses(name, { bearer: bearers.fenced }, 'instance_fenced');
  });
});

describe('credentials in the body', () => {
  it('are judged by each route that takes them', () => {
    expect(withAccess('body').map(({ name }) => name)).toEqual([
      'session-create',
      'agent-register',
      'agent-heartbeats',
    ]);
  });

  it.each(['expired', 'revoked', 'machine'] as const)('a session is not opened by a token that is %s', async (kind) => {
    const answer = await callRoute(world.url, 'session-create', { body: { token: bearers[kind] } });
    expectProblem(answer, kind === 'expired' ? 'token_expired' : 'token_unknown');
    expect(answer.headers.get('set-cookie')).toBeNull();
    await refuses('session-create', {}, 'token_unknown');
  });

  it('a registration is not taken from a stranger', async () => {
    await refuses('agent-register', {}, 'join_token_invalid');
    await refuses('agent-register', { bearer: 'swc_wrong' }, 'credential_unknown');
    await refuses('agent-register', { bearer: bearers.admin }, 'credential_unknown');
    await refuses('agent-register', { bearer: bearers.fenced }, 'instance_fenced');
  });

  it('a beat of a batch counts only with its own credential', async () => {
    const before = await world.tables.snapshot();
    const beats = ['swc_wrong', bearers.admin, bearers.fenced].map((credential) => ({
      credential,
      status: 'stopping',
    }));
    const answer = await callRoute(world.url, 'agent-heartbeats', { body: { beats } }, { bearer: bearers.admin });
    expect((answer.body.results as { code: string }[]).map(({ code }) => code)).toEqual([
      'credential_unknown',
      'credential_unknown',
      'instance_fenced',
    ]);
    expect(await world.tables.snapshot()).toEqual(before);
  });
});

it('keeps every denial in the audit, with who was refused what', async () => {
  const expected = [
    ...withAccess('person').flatMap(({ name, access }) => {
      const codes = ['token_missing', 'token_unknown', 'token_expired', 'origin_refused'];
      if (access.role !== 'viewer') codes.push('role_insufficient');
      if (access.tenants === 'none') codes.push('scope_insufficient');
      return codes.map((code) => `${name} ${code}`);
    }),
    ...withAccess('agent').map(({ name }) => `${name} credential_unknown`),
    'agent-register join_token_invalid',
  ];
  let missing = expected;
  // The audit shows a fact once nothing older can still be committed, and the last of them may be this young.
  await until('the audit to have every denial', async () => {
    const pages = await Promise.all(
      (['newest', 'oldest'] as const).map((order) =>
        world.client.call('audit-list', { query: { kind: 'request.denied', limit: 500, order } }),
      ),
    );
    const told = new Set(pages.flatMap(({ items }) => items.map(({ data }) => `${data.operation} ${data.code}`)));
    missing = expected.filter((each) => !told.has(each));
    return missing.length === 0;
  }).catch((error) => {
    throw new Error(`${error.message}; missing: ${missing.join(', ')}`);
  });
});
