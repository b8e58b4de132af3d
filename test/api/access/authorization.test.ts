/** Every route refuses callers that may not use it, changes nothing, and records the refusal. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ProtocolRoute } from '../../../src/contract/compat/protocol.ts';
import { protocolPath, protocolRoutes } from '../../../src/contract/compat/routes.ts';
import { type ErrorCode, errorCatalogue } from '../../../src/contract/errors/errors.ts';
import type { Access, RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import { roles } from '../../../src/contract/security/roles.ts';
import { until } from '../../support/until.ts';
import { callRoute, expectProblem, type Input, type SendOptions, send } from '../support/calls.ts';
import { expectProtocolError } from '../support/compat-clients.ts';
import { examplesFor } from '../support/examples.ts';
import { readyMachine, reenroll, type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
const bearers = { viewer: '', operator: '', admin: '', expired: '', revoked: '', machine: '', fenced: '', relay: '' };
let examples: Record<OperationName, Input>;

/** Routes with tests of their own: an open stream does not end by itself. */
const routesTestedElsewhere: OperationName[] = ['stream-open'];
const names = Object.keys(routes) as OperationName[];
const accessOf = (name: OperationName): Access => (routes[name] as RouteDeclaration).access;
const routesWithAccess = <K extends Access['kind']>(kind: K) =>
  names.flatMap((name) => {
    const access = accessOf(name);
    return access.kind === kind ? [{ name, access: access as Extract<Access, { kind: K }> }] : [];
  });

/** The ping is finished, so that its row does not change while a test compares tables. */
async function createAnsweredPing(): Promise<string> {
  const { machine } = fixture.acme;
  const { task_id } = await fixture.client.call('node-ping', { params: { id: machine.node_id }, body: {} });
  const params = { id: machine.node_id, task_id };
  await machine.work(async () => (await fixture.client.call('node-ping-get', { params })).over);
  return task_id;
}

beforeAll(async () => {
  // The test sends hundreds of wrong tokens from one address.
  fixture = await tenantFixture({ args: ['--token-failures', '1000000'] });
  for (const role of roles) bearers[role] = (await fixture.tokenFor(role)).token;
  bearers.expired = (await fixture.tokenFor('admin', { ttl_seconds: 0.001 })).token;
  const revoked = await fixture.tokenFor('admin');
  await fixture.client.call('token-delete', { params: { id: revoked.token_id } });
  bearers.revoked = revoked.token;
  bearers.relay = (await fixture.tokenFor('relay', { pool: 'outside' })).token;
  bearers.machine = fixture.acme.machine.credential;
  const join = await fixture.client.call('join-token-create', { params: { pool: 'outside' } });
  const task_id = await createAnsweredPing();
  examples = examplesFor(fixture, { join_token_id: join.token_id, task_id });
  // The node of this machine is re-enrolled, which fences the old instance.
  const replacedMachine = await readyMachine(fixture, 'twice');
  bearers.fenced = replacedMachine.credential;
  await replacedMachine.beat('stopping');
  await reenroll(fixture, replacedMachine);
});
afterAll(() => fixture.stop());

/** Comparing all tables is slow, so one comparison covers several calls. */
async function expectNoChange(name: string, calls: () => Promise<void>): Promise<void> {
  const snapshotBefore = await fixture.tables.snapshot();
  await calls();
  expect(await fixture.tables.snapshot(), `${name} changed something`).toEqual(snapshotBefore);
}

const expectRefused = (name: OperationName, ...cases: [SendOptions, ErrorCode][]): Promise<void> =>
  expectNoChange(name, async () => {
    for (const [options, code] of cases) {
      const answer = await callRoute(fixture.url, name, examples[name], options);
      expectProblem(answer, code, `${name} ${JSON.stringify(options).slice(0, 80)}`);
    }
  });

it('has exactly these public routes: health, public keys, and the agent bundle, which holds no secret', async () => {
  expect(routesWithAccess('public').map(({ name }) => name)).toEqual([
    'health-get',
    'readiness-get',
    'key-list',
    'agent-bundle',
  ]);
  for (const path of ['/healthz', '/readyz', '/docs', '/openapi.json', '/docs/errors'])
    expect((await send(fixture.url, 'GET', path)).status, path).toBe(200);
});

describe.each(routesWithAccess('person'))('$name', ({ name, access }) => {
  it('refuses a caller without a valid credential', async () => {
    await expectRefused(
      name,
      [{}, 'token_missing'],
      [{ bearer: 'swt_wrong' }, 'token_unknown'],
      [{ headers: { authorization: 'Basic YTpi' } }, 'token_unknown'],
      [{ headers: { authorization: "Bearer ' or 1=1 --" } }, 'token_unknown'],
      [{ headers: { cookie: 'slipway_session=sws_forged.forged' } }, 'token_unknown'],
      [{ bearer: bearers.expired }, 'token_expired'],
      [{ bearer: bearers.revoked }, 'token_unknown'],
      [{ bearer: bearers.machine }, 'token_unknown'],
      [{ bearer: bearers.relay }, 'role_insufficient'],
    );
  });

  it('refuses a request from a page of another origin', async () => {
    await expectRefused(
      name,
      [{ bearer: bearers.admin, headers: { origin: 'https://elsewhere.example' } }, 'origin_refused'],
      [{ bearer: bearers.admin, headers: { origin: 'null' } }, 'origin_refused'],
    );
  });

  const lowerRoles = roles.slice(0, roles.indexOf(access.role));
  if (lowerRoles.length > 0)
    it('refuses every lower role', async () => {
      await expectRefused(
        name,
        ...lowerRoles.map((role): [SendOptions, ErrorCode] => [{ bearer: bearers[role] }, 'role_insufficient']),
      );
    });

  if (access.tenants === 'none')
    it('refuses the token of a tenant', async () => {
      const { token } = await fixture.tokenFor(access.role, { tenant: 'acme' });
      await expectRefused(name, [{ bearer: token }, 'scope_insufficient']);
    });

  const { method } = routes[name];
  if (method === 'GET' && name !== 'stream-open')
    it('answers permitted callers', async () => {
      // The allocation of the example is active. Only a released allocation has a certificate
      // (evidence-seals.test.ts).
      const expectedStatus = name === 'allocation-certificate' ? 409 : 200;
      expect((await callRoute(fixture.url, name, examples[name], { bearer: bearers[access.role] })).status).toBe(
        expectedStatus,
      );
    });

  // A route that only creates a resource has nothing of another tenant to show.
  const namesResource = method === 'GET' || (routes[name] as RouteDeclaration).params !== undefined;
  if (access.tenants === 'own' && namesResource && !routesTestedElsewhere.includes(name))
    it('shows nothing of one tenant to another', async () => {
      const { acme, globex } = fixture;
      const snapshotBefore = await fixture.tables.snapshot();
      const answer = await callRoute(fixture.url, name, examples[name], { bearer: globex.token });
      if (examples[name].params)
        expectProblem(answer, ['allocation_not_found', 'node_not_found', 'operation_not_found', 'session_not_found']);
      expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
      const { allocation, machine } = acme;
      for (const text of [allocation.allocation_id, machine.node_id, machine.node_instance_id, 'acme'])
        expect(answer.text, `${name} shows ${text}`).not.toContain(text);
    });
});

/**
 * The routes that accept a relay token. Batches are not listed, because each heartbeat of a batch
 * has its own credential.
 */
const relayRoutes: OperationName[] = ['agent-stream'];

describe.each(routesWithAccess('agent'))('$name', ({ name, access }) => {
  it('refuses every caller except an unfenced machine', async () => {
    await expectRefused(
      name,
      [{}, 'token_missing'],
      [{ bearer: 'swc_wrong' }, 'credential_unknown'],
      [{ bearer: bearers.admin }, 'credential_unknown'],
      [{ bearer: fixture.acme.token }, 'credential_unknown'],
      [{ headers: { cookie: 'slipway_session=sws_forged.forged' } }, 'token_missing'],
      [{ bearer: bearers.fenced }, 'instance_fenced'],
    );
    expect(access.relays ?? false).toBe(relayRoutes.includes(name));
    if (!access.relays) await expectRefused(name, [{ bearer: bearers.relay }, 'credential_unknown']);
  });
});

describe.each(Object.entries(protocolRoutes))('%s', (name, route: ProtocolRoute) => {
  it('refuses callers without a token of the pool or a credential', async () => {
    const adminTokenCode = route.access === 'instance' ? 'credential_unknown' : 'join_token_invalid';
    const cases: [SendOptions, ErrorCode][] = [
      [{}, 'token_missing'],
      [{ bearer: 'swc_wrong' }, route.access === 'join' ? 'token_missing' : 'credential_unknown'],
      [{ bearer: bearers.machine }, route.access === 'join' ? 'token_missing' : 'credential_unknown'],
      [{ bearer: bearers.admin }, adminTokenCode],
      [{ headers: { 'x-api-key': 'swj_wrong' } }, route.access === 'instance' ? 'token_missing' : 'join_token_invalid'],
      [{ headers: { cookie: 'slipway_session=sws_forged.forged' } }, 'token_missing'],
      [{ bearer: fixture.join_token, headers: { origin: 'https://elsewhere.example' } }, 'origin_refused'],
    ];
    const path = protocolPath(route).replace('{id}', 'acme-machine');
    await expectNoChange(name, async () => {
      for (const [options, code] of cases) {
        const answer = await send(fixture.url, route.method, path, { ...(route.body && { body: {} }), ...options });
        expectProtocolError(answer, errorCatalogue[code].status, `${name} ${JSON.stringify(options).slice(0, 80)}`);
      }
    });
  });
});

describe('credentials in the body', () => {
  it('are accepted by exactly these routes', () => {
    expect(routesWithAccess('body').map(({ name }) => name)).toEqual([
      'session-create',
      'agent-register',
      'agent-heartbeats',
      'agent-credential-reissue',
    ]);
  });

  it.each(['expired', 'revoked', 'machine', 'relay'] as const)(
    'open no session if the credential is of this kind: %s',
    async (kind) => {
      const answer = await callRoute(fixture.url, 'session-create', { body: { token: bearers[kind] } });
      const codes = { expired: 'token_expired', relay: 'role_insufficient' } as const;
      expectProblem(answer, (codes as Partial<Record<string, ErrorCode>>)[kind] ?? 'token_unknown');
      expect(answer.headers.get('set-cookie')).toBeNull();
      await expectRefused('session-create', [{}, 'token_unknown']);
    },
  );

  it('register no machine without a valid token', async () => {
    await expectRefused(
      'agent-register',
      [{}, 'join_token_invalid'],
      [{ bearer: 'swc_wrong' }, 'credential_unknown'],
      [{ bearer: bearers.admin }, 'credential_unknown'],
      [{ bearer: bearers.fenced }, 'instance_fenced'],
    );
  });

  it('issue no credential without a signature by the key of the machine', async () => {
    const callers = [{}, ...Object.values(bearers).map((bearer) => ({ bearer })), { bearer: fixture.acme.token }];
    await expectRefused(
      'agent-credential-reissue',
      ...callers.map((options): [SendOptions, ErrorCode] => [options, 'reissue_refused']),
    );
  });

  it('are required for each heartbeat of a batch, even if an admin sends the batch', async () => {
    const snapshotBefore = await fixture.tables.snapshot();
    const beats = ['swc_wrong', bearers.admin, bearers.fenced].map((credential) => ({
      credential,
      status: 'stopping',
    }));
    const answer = await callRoute(fixture.url, 'agent-heartbeats', { body: { beats } }, { bearer: bearers.admin });
    expect((answer.body.results as { code: string }[]).map(({ code }) => code)).toEqual([
      'credential_unknown',
      'credential_unknown',
      'instance_fenced',
    ]);
    expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
  });
});

it('records every denial in the audit, with its operation and code', async () => {
  // The sign-in page checks whether a session exists, so a missing session is not a denial.
  const unrecordedDenial = 'session-get token_missing';
  const expected = [
    ...routesWithAccess('person').flatMap(({ name, access }) => {
      const codes = ['token_missing', 'token_unknown', 'token_expired', 'origin_refused'];
      if (access.role !== 'viewer') codes.push('role_insufficient');
      if (access.tenants === 'none') codes.push('scope_insufficient');
      return codes.map((code) => `${name} ${code}`);
    }),
    ...routesWithAccess('agent').map(({ name }) => `${name} credential_unknown`),
    'agent-register join_token_invalid',
    'agent-credential-reissue reissue_refused',
    ...Object.keys(protocolRoutes).flatMap((name) => [`${name} token_missing`, `${name} origin_refused`]),
  ].filter((each) => each !== unrecordedDenial);
  let missingDenials = expected;
  // The audit shows a row once no older transaction can still commit.
  await until('the audit to have every denial', async () => {
    const pages = await Promise.all(
      (['newest', 'oldest'] as const).map((order) =>
        fixture.client.call('audit-list', { query: { kind: 'request.denied', limit: 500, order } }),
      ),
    );
    const recordedDenials = new Set(
      pages.flatMap(({ items }) => items.map(({ data }) => `${data.operation} ${data.code}`)),
    );
    expect(recordedDenials).not.toContain(unrecordedDenial);
    missingDenials = expected.filter((each) => !recordedDenials.has(each));
    return missingDenials.length === 0;
  }).catch((error) => {
    throw new Error(`${error.message}; missing: ${missingDenials.join(', ')}`);
  });
});

describe('a refused action', () => {
  const waitForAudit = (query: { target_id: string; action: string; code: ErrorCode }) =>
    until(`${query.action} of ${query.target_id} in the audit`, async () => {
      const { items } = await fixture.client.call('audit-list', { query });
      return items.length > 0 ? items : undefined;
    });

  it("on another tenant's target is recorded once with its actor, and hidden from both tenants", async () => {
    const { acme, globex } = fixture;
    const { allocation_id, workflow_id } = acme.allocation;
    for (const name of ['allocation-release', 'allocation-retry', 'allocation-act', 'operation-cancel'] as const)
      for (let times = 0; times < 2; times++)
        await callRoute(fixture.url, name, examples[name], { bearer: globex.token });
    const { items: tokens } = await fixture.client.call('token-list', {});
    for (const [action, target_id] of [
      ['allocation-release', allocation_id],
      ['allocation-retry', allocation_id],
      ['release', allocation_id],
      ['operation-cancel', workflow_id ?? ''],
    ] as const) {
      const code = target_id === allocation_id ? 'allocation_not_found' : 'operation_not_found';
      const facts = await waitForAudit({ target_id, action, code });
      expect(facts, `${action} is recorded once`).toHaveLength(1);
      expect(facts[0]).toMatchObject({ kind: 'action.refused', allocation_id: null, data: { target_id } });
      expect(tokens.find(({ token_id }) => token_id === facts[0]?.actor?.id)).toMatchObject({ tenant: 'globex' });
    }
    for (const { client } of [acme, globex]) {
      const { items } = await client.call('timeline-get', { query: { allocation_id, limit: 500 } });
      expect(items.filter(({ kind }) => kind === 'action.refused')).toEqual([]);
    }
  });

  it('is found by its target when the role was insufficient or the caller unknown', async () => {
    const { node_id } = fixture.acme.machine;
    for (const options of [{ bearer: bearers.viewer }, {}, { bearer: 'swt_wrong' }])
      await callRoute(fixture.url, 'node-act', examples['node-act'], options);
    for (const code of ['role_insufficient', 'token_missing', 'token_unknown'] as const)
      expect((await waitForAudit({ target_id: node_id, action: 'extend-deadline', code }))[0]).toMatchObject({
        kind: 'request.denied',
        node_id: code === 'role_insufficient' ? node_id : null,
      });
  });

  it('on residue or a finding is recorded with the ids of its node and instance', async () => {
    const { node_id, node_instance_id } = fixture.acme.machine;
    const ids = [node_id, node_instance_id];
    await fixture.tables.query(
      `insert into residue (residue_id, driver, kind, resource, node_id, node_instance_id, why, reason, since, status)
       values ('res_gone', 'external', 'vm', 'vm/1', $1, $2, 'orphan', 'left', now(), 'gone')`,
      ids,
    );
    await fixture.tables.query(
      `insert into findings (finding_id, kind, what, subject, pool, node_id, node_instance_id, ours, theirs, first_seen_at, seen_at, status, closed_at)
       values ('find_done', 'drift', 'machine_absent', $1, 'outside', $1, $2, '{}', '{}', now(), now(), 'resolved', now())`,
      ids,
    );
    for (const [name, target_id] of [
      ['residue-delete', 'res_gone'],
      ['residue-adopt', 'res_gone'],
      ['drift-repair', 'find_done'],
    ] as const) {
      const call = { params: { id: target_id }, body: { reason: 'it is not needed' } };
      expectProblem(await callRoute(fixture.url, name, call, { bearer: bearers.operator }), 'action_illegal');
      expect((await waitForAudit({ target_id, action: name, code: 'action_illegal' }))[0]).toMatchObject({
        node_id,
        node_instance_id,
        data: { target_id, reason: 'it is not needed' },
      });
    }
  });
});
