/**
 * The tables of actions and what the API says and does are one: for every status of a node and of an allocation, each action is
 * offered and answered as its table says. What is refused and what is done is on record, with who asked and why.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprintOf } from '../../src/base/credentials/ed25519.ts';
import { runCli } from '../../src/cli/testing/run-cli.ts';
import type { Node } from '../../src/contract/node.ts';
import type { NodeActed } from '../../src/contract/supervision/explanation.ts';
import {
  type ActionSubject,
  type NodeActionName,
  nodeActionNames,
  whyNotOnNode,
} from '../../src/lifecycle/actions/actions.ts';
import {
  allocationActionNames,
  allocationActions,
  whyNotOnAllocation,
} from '../../src/lifecycle/actions/allocation-actions.ts';
import {
  type AllocationStatus,
  allocationStatusNames,
  type NodeStatus,
  nodeStatusNames,
} from '../../src/lifecycle/model/states.ts';
import { type Ledger, openLedger } from '../support/ledger.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { callRoute, expectProblem } from './support/calls.ts';

let server: TestServer;
let ledger: Ledger;
let node_id: string;
let allocation_id: string;
let tenant_token: string;
let viewer_token: string;

beforeAll(async () => {
  // Nothing moves by itself, so that everything stands as the test puts it.
  server = await inProcessServer({ composition: { sweeps: () => [] } });
  ledger = await openLedger(server.database_url);
  const { client } = server;
  await client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external' } });
  node_id = (await client.call('node-create', { body: { pool: 'outside' } })).node.node_id;
  const tenant = await client.call('token-create', { body: { name: 'acme', role: 'operator', tenant: 'acme' } });
  tenant_token = tenant.token ?? '';
  viewer_token = (await client.call('token-create', { body: { name: 'looker', role: 'viewer' } })).token ?? '';
  const asked = await server.as(tenant_token).call('allocation-create', { body: { pool: 'outside' } });
  allocation_id = asked.allocation.allocation_id;
});
afterAll(async () => {
  await ledger?.close();
  await server?.stop();
});

const held = {
  rule: 'liveness',
  to: 'failed',
  kind: 'mass-failure',
  hold: 'hold_1',
  reason: 'many at once',
  since: '2026-01-01T00:00:00.000Z',
  held_until: '2026-01-01T01:00:00.000Z',
};
const someday = '2099-01-01T00:00:00.000Z';

interface Standing {
  node: NodeStatus;
  allocation: AllocationStatus;
  /** The allocation names the node; otherwise it has none. */
  bound: boolean;
  /** A deadline, a held verdict and an address, or none of them. */
  much: boolean;
}

async function stand({ node, allocation, bound, much }: Standing): Promise<void> {
  await ledger.rows('update nodes set status = $2, deadline_at = $3, held = $4, endpoint = $5 where node_id = $1', [
    node_id,
    node,
    much ? someday : null,
    much ? held : null,
    much ? 'http://127.0.0.1:1' : null,
  ]);
  await ledger.rows('update allocations set status = $2, node_id = $3, deadline_at = $4 where allocation_id = $1', [
    allocation_id,
    allocation,
    bound ? node_id : null,
    much ? someday : null,
  ]);
}

const shown = (): Promise<Node> => server.client.call('node-get', { params: { id: node_id } });

/** As the tables see the node: by what everybody can read, not by what the server made of it. */
async function subjectNow(allocation: AllocationStatus): Promise<ActionSubject> {
  const node = await shown();
  return {
    ...node,
    allocation_status: node.allocation_id === null ? null : allocation,
    instance_fenced: null,
    taken_down_by: null,
    external: node.pool !== 'local',
    reuse: node.pool !== 'local',
  };
}

const asked = { reason: 'to see', seconds: 60, dry_run: true };

async function answersAs(
  route: 'node-act' | 'allocation-act',
  id: string,
  action: string,
  why_not: string | null,
): Promise<void> {
  const answer = await callRoute(server.url, route, { params: { id, action }, body: asked }, { bearer: server.token });
  if (why_not === null) {
    expect(answer.status, `${route} ${action}: ${answer.text}`).toBe(200);
    expect(answer.body).toMatchObject({ dry_run: true, operation: null });
  } else {
    expectProblem(answer, 'action_illegal', `${route} ${action}`);
    expect((answer.body as { detail: string }).detail).toBe(why_not);
  }
}

/** Everything that a change of status or the evidence of an action would show. */
const untouched = async () => [
  await ledger.rows('select status, deadline_at, held, workflow_id from nodes'),
  await ledger.rows('select status, deadline_at, node_id, workflow_id from allocations'),
  await ledger.rows('select workflow_id, status from operations order by workflow_id'),
  await ledger.rows(`select kind from evidence where kind like 'action.%'`),
];

describe.each(nodeStatusNames)('a node that is %s', (node) => {
  it.each([
    { allocation: 'released', bound: false, much: true },
    { allocation: 'released', bound: false, much: false },
    { allocation: 'releasing', bound: true, much: true },
    { allocation: 'release_failed', bound: true, much: true },
    { allocation: 'failed', bound: true, much: true },
  ] as const)('with an allocation that is $allocation (much: $much)', async (around) => {
    await stand({ node, ...around });
    const before = await untouched();
    const subject = await subjectNow(around.allocation);
    const { items } = await server.client.call('node-actions', { params: { id: node_id } });
    // What leads on from a release that failed comes first.
    const first = around.allocation === 'release_failed' ? (['retry-release'] as const) : [];
    expect(items.map(({ action }) => action)).toEqual([...new Set([...first, ...nodeActionNames])]);
    for (const { action, open, why_not } of items) {
      expect(why_not, action).toBe(whyNotOnNode(action, subject));
      expect(open, action).toBe(why_not === null);
      await answersAs('node-act', node_id, action, why_not);
    }
    const explained = await server.client.call('node-explain', { params: { id: node_id } });
    expect(explained.actions).toEqual(items);
    expect(await untouched(), 'a dry run changes nothing and leaves no action behind').toEqual(before);
  });
});

describe.each(allocationStatusNames)('an allocation that is %s', (allocation) => {
  it.each([
    { node: 'ready', bound: false, much: true },
    { node: 'starting', bound: true, much: true },
    { node: 'failed', bound: true, much: true },
    { node: 'retired', bound: true, much: true },
    { node: 'cleaning', bound: true, much: false },
  ] as const)('with a machine that is $node (bound: $bound, much: $much)', async (around) => {
    await stand({ allocation, ...around });
    const before = await untouched();
    const node = await shown();
    const own = node.allocation_id === allocation_id ? await subjectNow(allocation) : null;
    const subject = {
      status: allocation,
      deadline_at: around.much ? someday : null,
      node_id: around.bound ? node_id : null,
      node: own,
    };
    const { items } = await server.client.call('allocation-actions', { params: { id: allocation_id } });
    expect(items.map(({ action }) => action)).toEqual(allocationActionNames);
    for (const { action, open, why_not } of items) {
      expect(why_not, action).toBe(whyNotOnAllocation(action, subject));
      expect(open, action).toBe(why_not === null);
      await answersAs('allocation-act', allocation_id, action, why_not);
    }
    expect(await untouched(), 'a dry run changes nothing and leaves no action behind').toEqual(before);
  });
});

it('a machine whose release waits for another try shows no deadline of the last one', async () => {
  await stand({ node: 'cleaning', allocation: 'release_failed', bound: true, much: true });
  expect(await shown()).toMatchObject({ deadline_at: null, budget_seconds: null });
  await stand({ node: 'cleaning', allocation: 'releasing', bound: true, much: true });
  expect(await shown()).toMatchObject({ deadline_at: someday });
});

it('the CLI lists what the API says', async () => {
  await stand({ node: 'failed', allocation: 'failed', bound: true, much: true });
  const settings = { server: server.url, env: { SLIPWAY_TOKEN: server.token } };
  const cli = async (id: string) => JSON.parse((await runCli(['actions', id, '--json'], settings)).stdout);
  expect(await cli(node_id)).toEqual(await server.client.call('node-actions', { params: { id: node_id } }));
  expect(await cli(allocation_id)).toEqual(
    await server.client.call('allocation-actions', { params: { id: allocation_id } }),
  );
});

describe('a tenant', () => {
  it('is offered what the table gives to tenants, and nothing of the fleet', async () => {
    await stand({ node: 'failed', allocation: 'failed', bound: true, much: true });
    const { items } = await server.as(tenant_token).call('allocation-actions', { params: { id: allocation_id } });
    for (const { action, open, why_not } of items)
      if (allocationActions[action].for === 'fleet')
        expect({ open, why_not }, action).toEqual({
          open: false,
          why_not: 'Only operators of the whole fleet may do this.',
        });
    expect(items.filter(({ open }) => open).map(({ action }) => action)).toEqual(['retry', 'release']);
  });

  it.each(allocationActionNames)('who asks for %s is judged by the table', async (action) => {
    await stand({ node: 'failed', allocation: 'failed', bound: true, much: true });
    const answer = await callRoute(
      server.url,
      'allocation-act',
      { params: { id: allocation_id, action }, body: asked },
      { bearer: tenant_token },
    );
    if (allocationActions[action].for === 'fleet') expectProblem(answer, 'scope_insufficient');
    else expect(answer.status).toBe(action === 'retry-release' ? 409 : 200);
  });
});

it('whoever may only look is offered nothing', async () => {
  const looker = server.as(viewer_token);
  const offered = [
    ...(await looker.call('node-actions', { params: { id: node_id } })).items,
    ...(await looker.call('allocation-actions', { params: { id: allocation_id } })).items,
  ];
  expect(new Set(offered.map(({ open, why_not }) => `${open} ${why_not}`))).toEqual(
    new Set(['false Your token is read-only; this needs the role operator.']),
  );
});

const audited = (kind: string, action: string) =>
  until(`${kind} of ${action} in the audit`, async () => {
    const { items } = await server.client.call('audit-list', { query: { kind, limit: 500 } });
    return items.find((fact) => fact.data.action === action);
  });

describe('the audit', () => {
  it('has a refusal once, with who wanted what, why, and why not', async () => {
    await stand({ node: 'ready', allocation: 'active', bound: true, much: false });
    const refuse = (id: string, route: 'node-act' | 'allocation-act', action: string, reason: string) =>
      callRoute(server.url, route, { params: { id, action }, body: { reason } }, { bearer: server.token });
    for (const reason of ['let it go', 'let it go at last'])
      expectProblem(await refuse(node_id, 'node-act', 'retire', reason), 'action_illegal');
    expect(await audited('action.refused', 'retire')).toMatchObject({
      layer: 'operator',
      summary: 'retire was refused: An allocation uses it; release that first.',
      data: { action: 'retire', operation: 'node-act', code: 'action_illegal', reason: 'let it go' },
      actor: { kind: 'token', name: 'admin' },
      node_id,
      allocation_id,
    });
    expectProblem(await refuse(allocation_id, 'allocation-act', 'retry', 'again'), 'action_illegal');
    expect(await audited('action.refused', 'retry')).toMatchObject({
      data: { reason: 'again', why_not: 'It is active; this needs failed.' },
      node_id,
      allocation_id,
    });
    const { items } = await server.client.call('audit-list', { query: { kind: 'action.refused' } });
    expect(items.map(({ data }) => data.action).toSorted(), 'equal ones are counted, not told').toEqual([
      'retire',
      'retry',
    ]);
  });

  /** Where each can be done for real without a machine that answers. An action that is not here does not compile. */
  const doable = {
    retry: { node: 'failed', allocation: 'failed', bound: true },
    'extend-deadline': { node: 'starting', much: true },
    drain: { node: 'ready' },
    undrain: { node: 'draining' },
    quarantine: { node: 'ready' },
    reactivate: { node: 'quarantined' },
    'retry-release': { node: 'cleaning', allocation: 'release_failed', bound: true },
    'force-release': { node: 'cleaning', allocation: 'release_failed', bound: true },
    'accept-key': { node: 'cleaning', key: 'unproven' },
    'apply-held-verdict': { node: 'offline', much: true },
    reimage: { node: 'ready', pool: 'local' },
    probe: { node: 'ready' },
    'collect-diagnostics': { node: 'quarantined' },
    're-enroll': { node: 'offline' },
    retire: { node: 'ready' },
  } satisfies Record<NodeActionName, Partial<Standing> & { node: NodeStatus; pool?: 'local'; key?: 'unproven' }>;

  it.each(nodeActionNames)('has %s of a node, with who did it and why', async (action) => {
    const { pool, bound, key, ...standing }: Partial<Standing> & { node: NodeStatus; pool?: string; key?: string } =
      doable[action];
    await stand({ allocation: 'released', bound: bound ?? false, much: false, ...standing });
    await ledger.rows('update nodes set pool = $1', [pool ?? 'outside']);
    if (key === 'unproven')
      await ledger.rows(
        `update instances set key_unproven_since = now(), agent_public_key = 'a key' where node_id = $1`,
        [node_id],
      );
    await ledger.rows(`update nodes set held = held || '{"rule": "offline-deadline"}' where held is not null`);
    const reason = `${action} was needed`;
    const fingerprint = fingerprintOf('a key');
    const answer = await callRoute(
      server.url,
      'node-act',
      { params: { id: node_id, action }, body: { reason, seconds: 60, fingerprint } },
      { bearer: server.token },
    );
    expect(answer.status, answer.text).toBe(200);
    const { predicts, node } = answer.body as unknown as NodeActed;
    if (predicts.status === node.status && bound === undefined)
      expect(predicts.deadline_at, 'what was foretold is what came').toBe(node.deadline_at);
    expect(await audited('action.done', action)).toMatchObject({
      layer: 'operator',
      data: { action, reason },
      actor: { kind: 'token', name: 'admin' },
      node_id,
    });
  });
});

describe('on an allocation whose machine is gone', () => {
  const act = (action: (typeof allocationActionNames)[number], more: object = {}) =>
    server.client.call('allocation-act', {
      params: { id: allocation_id, action },
      body: { reason: `${action} was needed`, ...more },
    });
  const done = async (action: string) =>
    ledger.count(
      `select 1 from evidence where kind = 'action.done' and allocation_id = $1 and data ->> 'action' = $2 and data ->> 'reason' = $3`,
      [allocation_id, action, `${action} was needed`],
    );

  /** Nothing runs here: what was forced before must not be taken for what is asked for now. */
  const forgetForced = () =>
    ledger.rows(
      `update operations set status = 'cancelled', finished_at = now() where kind = 'allocation-force-release' and status = 'queued'`,
    );

  it('a failed release is tried again', async () => {
    await forgetForced();
    await stand({ node: 'retired', allocation: 'release_failed', bound: true, much: false });
    const before = await done('retry-release');
    const { allocation, operation, predicts } = await act('retry-release');
    expect(allocation.status).toBe('releasing');
    expect(operation).toMatchObject({ kind: 'allocation-release', status: 'queued' });
    expect(predicts.status).toBe('releasing');
    const foretold = Date.parse(predicts.deadline_at ?? '') - Date.parse(allocation.deadline_at ?? '');
    expect(Math.abs(foretold), 'what was foretold is what came').toBeLessThan(1_000);
    expect(await done('retry-release')).toBe(before + 1);
  });

  it('a try that loses to a forced release is told of that, and not done', async () => {
    await stand({ node: 'retired', allocation: 'release_failed', bound: true, much: false });
    await forgetForced();
    const forced = (await act('force-release')).operation?.workflow_id;
    // As the one who asked for the other try saw it, before the forced one was committed.
    await stand({ node: 'retired', allocation: 'release_failed', bound: true, much: false });
    const before = await done('retry-release');
    const params = { id: allocation_id, action: 'retry-release' };
    const answer = await callRoute(
      server.url,
      'allocation-act',
      { params, body: { reason: 'once more' } },
      { bearer: server.token },
    );
    expectProblem(answer, 'action_illegal');
    expect(answer.body.detail).toContain(`forced by now, by operation ${forced}`);
    expect(await done('retry-release')).toBe(before);
    await forgetForced();
  });

  it('a release is forced', async () => {
    await stand({ node: 'retired', allocation: 'release_failed', bound: true, much: false });
    await forgetForced();
    const before = await done('force-release');
    const { allocation, operation, predicts } = await act('force-release');
    expect(allocation.status).toBe('releasing');
    expect(operation).toMatchObject({ kind: 'allocation-force-release', status: 'queued' });
    expect(predicts.status).toBe('released');
    expect(await done('force-release')).toBe(before + 1);
    await forgetForced();
  });

  it('a failed one is tried again, and given back', async () => {
    await stand({ node: 'retired', allocation: 'failed', bound: true, much: false });
    const before = await done('retry');
    expect((await act('retry')).operation).toMatchObject({ kind: 'node-provision', status: 'queued' });
    expect(await done('retry')).toBe(before + 1);
    expect((await act('release')).allocation.status).toBe('releasing');
    expect(await done('release')).toBe(1);
  });

  it('the time that it waits by itself is extended, with that of the step it waits in', async () => {
    await stand({ node: 'retired', allocation: 'requested', bound: false, much: true });
    const steps = () =>
      ledger.rows<{ within_seconds: number }>(
        `select within_seconds from steps join operations using (workflow_id) where allocation_id = $1 and operations.status = 'queued' and within_seconds is not null order by workflow_id, ordinal`,
        [allocation_id],
      );
    const before = await steps();
    const { allocation } = await act('extend-deadline', { seconds: 600 });
    expect(allocation.deadline_at).toBe('2099-01-01T00:10:00.000Z');
    expect(before.length).toBeGreaterThan(0);
    expect(await steps()).toEqual(before.map(({ within_seconds }) => ({ within_seconds: within_seconds + 600 })));
    expect(await done('extend-deadline')).toBe(1);
  });
});

it('a retry is foretold as it would be answered: refused, as long as its pool is paused', async () => {
  await stand({ node: 'failed', allocation: 'failed', bound: true, much: true });
  const pause = (paused: boolean) =>
    server.client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external', paused } });
  await pause(true);
  for (const [route, id] of [
    ['node-act', node_id],
    ['allocation-act', allocation_id],
  ] as const)
    for (const dry_run of [true, false]) {
      const wanted = { params: { id, action: 'retry' }, body: { reason: 'again', dry_run } };
      expectProblem(await callRoute(server.url, route, wanted, { bearer: server.token }), 'pool_paused', route);
    }
  await pause(false);
});

it.each([
  ['node-act', () => ({ id: node_id, action: 'retry' })],
  ['allocation-act', () => ({ id: allocation_id, action: 'retry' })],
  ['allocation-release', () => ({ id: allocation_id })],
] as const)('a blank reason is none: %s', async (route, params) => {
  const wanted = { params: params(), body: { reason: ' \t ' } };
  const answer = await callRoute(server.url, route, wanted, { bearer: server.token });
  expectProblem(answer, 'invalid_request');
  expect(answer.body).toMatchObject({ detail: '/body/reason must not be blank.' });
});

it('a forced release is foretold by what can be proven now', async () => {
  await stand({ node: 'cleaning', allocation: 'release_failed', bound: true, much: false });
  const foretold = async (pool: string) => {
    await ledger.rows('update nodes set pool = $1, pool_generation = 1', [pool]);
    const body = { reason: 'to see', dry_run: true };
    const { predicts } = await server.client.call('node-act', {
      params: { id: node_id, action: 'force-release' },
      body,
    });
    expect(predicts.says).toMatch(/with one it is retired .*; without one .* it is quarantined/);
    return predicts.status;
  };
  expect(await foretold('outside'), 'only its agent could prove it clean').toBe('quarantined');
  await server.client.call('pool-put', { params: { pool: 'let-go' }, body: { driver: 'external', reuse: false } });
  expect(await foretold('let-go'), 'ending its credential is the proof').toBe('retired');
  expect(await foretold('local'), 'its driver finds nothing of it').toBe('retired');
  await ledger.rows(`update nodes set pool = 'outside'`);
});
