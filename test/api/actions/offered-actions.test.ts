/**
 * For every status of a node and of an allocation, the API offers and answers each action as the
 * action tables say.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import { whyNotForCaller } from '../../../src/lifecycle/actions/action-table.ts';
import { nodeActionNames, whyNotOnNode } from '../../../src/lifecycle/actions/actions.ts';
import {
  allocationActionNames,
  allocationActions,
  whyNotOnAllocation,
} from '../../../src/lifecycle/actions/allocation-actions.ts';
import { allocationStatusNames, nodeStatusNames } from '../../../src/lifecycle/model/states.ts';
import { tenantOnly, wholeFleet } from '../../../src/lifecycle/visibility.ts';
import { type ActionFixture, farDeadline, openActionFixture } from '../support/action-fixture.ts';
import { callRoute, expectProblem } from '../support/calls.ts';

let fixture: ActionFixture;
beforeAll(async () => {
  fixture = await openActionFixture();
});
afterAll(() => fixture?.stop());

const dryRun = { reason: 'to see', seconds: 60, dry_run: true };

/** Checks that the API accepts or refuses a dry run of the action as the action tables say. */
async function expectAnswer(
  route: 'node-act' | 'allocation-act',
  id: string,
  action: string,
  why_not: string | null,
): Promise<void> {
  const answer = await callRoute(
    fixture.server.url,
    route,
    { params: { id, action }, body: dryRun },
    { bearer: fixture.server.token },
  );
  if (why_not === null) {
    expect(answer.status, `${route} ${action}: ${answer.text}`).toBe(200);
    expect(answer.body).toMatchObject({ dry_run: true, operation: null });
  } else {
    expectProblem(answer, 'action_illegal', `${route} ${action}`);
    expect((answer.body as { detail: string }).detail).toBe(why_not);
  }
}

/** The rows that an action would change, and the evidence of actions. */
const readSnapshot = async () => [
  await fixture.db.query('select status, deadline_at, held, workflow_id from nodes'),
  await fixture.db.query('select status, deadline_at, node_id, workflow_id from allocations'),
  await fixture.db.query('select workflow_id, status from operations order by workflow_id'),
  await fixture.db.query(`select kind from evidence where kind like 'action.%'`),
];

describe.each(nodeStatusNames)('for a node that is %s', (node) => {
  it.each([
    { allocation: 'released', bound: false, hasOptionalFields: true },
    { allocation: 'released', bound: false, hasOptionalFields: false },
    { allocation: 'releasing', bound: true, hasOptionalFields: true },
    { allocation: 'release_failed', bound: true, hasOptionalFields: true },
    { allocation: 'failed', bound: true, hasOptionalFields: true },
  ] as const)(
    'offers the actions of the table if its allocation is $allocation (optional fields: $hasOptionalFields)',
    async (statuses) => {
      await fixture.setStatuses({ node, ...statuses });
      const snapshotBefore = await readSnapshot();
      const subject = await fixture.readSubject(statuses.allocation);
      const { items } = await fixture.server.client.call('node-actions', { params: { id: fixture.node_id } });
      // After a failed release, retry-release is listed first.
      const first = statuses.allocation === 'release_failed' ? (['retry-release'] as const) : [];
      expect(items.map(({ action }) => action)).toEqual([...new Set([...first, ...nodeActionNames])]);
      for (const { action, open, why_not } of items) {
        expect(why_not, action).toBe(whyNotOnNode(action, subject));
        expect(open, action).toBe(why_not === null);
        await expectAnswer('node-act', fixture.node_id, action, why_not);
      }
      const explanation = await fixture.server.client.call('node-explain', { params: { id: fixture.node_id } });
      expect(explanation.actions).toEqual(items);
      expect(await readSnapshot(), 'rows after the dry runs').toEqual(snapshotBefore);
    },
  );
});

describe.each(allocationStatusNames)('for an allocation that is %s', (allocation) => {
  it.each([
    { node: 'ready', bound: false, hasOptionalFields: true },
    { node: 'starting', bound: true, hasOptionalFields: true },
    { node: 'failed', bound: true, hasOptionalFields: true },
    { node: 'retired', bound: true, hasOptionalFields: true },
    { node: 'cleaning', bound: true, hasOptionalFields: false },
  ] as const)(
    'offers the actions of the table if its node is $node (bound: $bound, optional fields: $hasOptionalFields)',
    async (statuses) => {
      await fixture.setStatuses({ allocation, ...statuses });
      const snapshotBefore = await readSnapshot();
      const node = await fixture.readNode();
      const holdingNode = node.allocation_id === fixture.allocation_id ? await fixture.readSubject(allocation) : null;
      const subject = {
        status: allocation,
        deadline_at: statuses.hasOptionalFields ? farDeadline : null,
        node_id: statuses.bound ? fixture.node_id : null,
        node: holdingNode,
      };
      const { items } = await fixture.server.client.call('allocation-actions', {
        params: { id: fixture.allocation_id },
      });
      expect(items.map(({ action }) => action)).toEqual(allocationActionNames);
      for (const { action, open, why_not } of items) {
        expect(why_not, action).toBe(whyNotOnAllocation(action, subject));
        expect(open, action).toBe(why_not === null);
        await expectAnswer('allocation-act', fixture.allocation_id, action, why_not);
      }
      expect(await readSnapshot(), 'rows after the dry runs').toEqual(snapshotBefore);
    },
  );
});

it('shows no deadline for a node whose failed release waits for a retry', async () => {
  await fixture.setStatuses({ node: 'cleaning', allocation: 'release_failed', bound: true, hasOptionalFields: true });
  expect(await fixture.readNode()).toMatchObject({ deadline_at: null, budget_seconds: null });
  await fixture.setStatuses({ node: 'cleaning', allocation: 'releasing', bound: true, hasOptionalFields: true });
  expect(await fixture.readNode()).toMatchObject({ deadline_at: farDeadline });
});

it('lists the same actions in the CLI', async () => {
  await fixture.setStatuses({ node: 'failed', allocation: 'failed', bound: true, hasOptionalFields: true });
  const settings = { server: fixture.server.url, env: { SLIPWAY_TOKEN: fixture.server.token } };
  const cli = async (id: string) => JSON.parse((await runCli(['actions', id, '--json'], settings)).stdout);
  expect(await cli(fixture.node_id)).toEqual(
    await fixture.server.client.call('node-actions', { params: { id: fixture.node_id } }),
  );
  expect(await cli(fixture.allocation_id)).toEqual(
    await fixture.server.client.call('allocation-actions', { params: { id: fixture.allocation_id } }),
  );
});

describe('for a tenant', () => {
  it('offers the actions of tenants, and no fleet actions', async () => {
    await fixture.setStatuses({ node: 'failed', allocation: 'failed', bound: true, hasOptionalFields: true });
    const { items } = await fixture.server
      .as(fixture.tenant_token)
      .call('allocation-actions', { params: { id: fixture.allocation_id } });
    const why_not = whyNotForCaller('fleet', { role: 'operator', visibility: tenantOnly('acme') });
    const fleetActions = items.filter(({ action }) => allocationActions[action].for === 'fleet');
    expect(fleetActions.length).toBeGreaterThan(0);
    for (const item of fleetActions) expect(item).toMatchObject({ open: false, why_not });
    expect(items.filter(({ open }) => open).map(({ action }) => action)).toEqual(['retry', 'release']);
  });

  it.each(allocationActionNames)('answers %s as the action table says', async (action) => {
    await fixture.setStatuses({ node: 'failed', allocation: 'failed', bound: true, hasOptionalFields: true });
    const answer = await callRoute(
      fixture.server.url,
      'allocation-act',
      { params: { id: fixture.allocation_id, action }, body: dryRun },
      { bearer: fixture.tenant_token },
    );
    if (allocationActions[action].for === 'fleet') expectProblem(answer, 'scope_insufficient');
    else expect(answer.status).toBe(action === 'retry-release' ? 409 : 200);
  });
});

it('lists every action as closed for a viewer', async () => {
  const viewer = fixture.server.as(fixture.viewer_token);
  const items = [
    ...(await viewer.call('node-actions', { params: { id: fixture.node_id } })).items,
    ...(await viewer.call('allocation-actions', { params: { id: fixture.allocation_id } })).items,
  ];
  const why_not = whyNotForCaller('fleet', { role: 'viewer', visibility: wholeFleet });
  expect(items.length).toBeGreaterThan(0);
  for (const item of items) expect(item).toMatchObject({ open: false, why_not });
});

it('refuses a retry while the pool is paused, also as a dry run', async () => {
  await fixture.setStatuses({ node: 'failed', allocation: 'failed', bound: true, hasOptionalFields: true });
  const pause = (paused: boolean) =>
    fixture.server.client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external', paused } });
  await pause(true);
  for (const [route, id] of [
    ['node-act', fixture.node_id],
    ['allocation-act', fixture.allocation_id],
  ] as const)
    for (const dry_run of [true, false]) {
      const request = { params: { id, action: 'retry' }, body: { reason: 'again', dry_run } };
      expectProblem(
        await callRoute(fixture.server.url, route, request, { bearer: fixture.server.token }),
        'pool_paused',
        route,
      );
    }
  await pause(false);
});

it.each([
  ['node-act', () => ({ id: fixture.node_id, action: 'retry' })],
  ['allocation-act', () => ({ id: fixture.allocation_id, action: 'retry' })],
  ['allocation-release', () => ({ id: fixture.allocation_id })],
] as const)('refuses a blank reason: %s', async (route, params) => {
  const request = { params: params(), body: { reason: ' \t ' } };
  const answer = await callRoute(fixture.server.url, route, request, { bearer: fixture.server.token });
  expectProblem(answer, 'invalid_request');
  expect(answer.body.errors).toEqual([expect.objectContaining({ path: '/body/reason' })]);
});
