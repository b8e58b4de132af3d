/** Tests the effects, predictions and audit records of performed and refused actions. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprintOf } from '../../../src/base/credentials/ed25519.ts';
import type { NodeActed } from '../../../src/contract/supervision/explanation.ts';
import { type NodeActionName, nodeActionNames, whyNotOnNode } from '../../../src/lifecycle/actions/actions.ts';
import { type allocationActionNames, whyNotOnAllocation } from '../../../src/lifecycle/actions/allocation-actions.ts';
import type { NodeStatus } from '../../../src/lifecycle/model/states.ts';
import { until } from '../../support/until.ts';
import { type ActionFixture, openActionFixture, type SubjectStatuses } from '../support/action-fixture.ts';
import { callRoute, expectProblem } from '../support/calls.ts';

let fixture: ActionFixture;
beforeAll(async () => {
  fixture = await openActionFixture();
});
afterAll(() => fixture?.stop());

const waitForAudit = (kind: string, action: string) =>
  until(`${kind} of ${action} in the audit`, async () => {
    const { items } = await fixture.server.client.call('audit-list', { query: { kind, limit: 500 } });
    return items.find((fact) => fact.data.action === action);
  });

describe('the audit', () => {
  it('records a refusal once, with actor, target, the reason of the caller and the reason of the refusal', async () => {
    await fixture.setStatuses({ node: 'ready', allocation: 'active', bound: true, hasOptionalFields: false });
    const node = await fixture.readSubject('active');
    const requestAction = (id: string, route: 'node-act' | 'allocation-act', action: string, reason: string) =>
      callRoute(
        fixture.server.url,
        route,
        { params: { id, action }, body: { reason } },
        { bearer: fixture.server.token },
      );
    for (const reason of ['not needed', 'still not needed'])
      expectProblem(await requestAction(fixture.node_id, 'node-act', 'retire', reason), 'action_illegal');
    expect(await waitForAudit('action.refused', 'retire')).toMatchObject({
      layer: 'operator',
      data: {
        action: 'retire',
        operation: 'node-act',
        code: 'action_illegal',
        reason: 'not needed',
        why_not: whyNotOnNode('retire', node),
      },
      actor: { kind: 'token', name: 'admin' },
      node_id: fixture.node_id,
      allocation_id: fixture.allocation_id,
    });
    expectProblem(await requestAction(fixture.allocation_id, 'allocation-act', 'retry', 'again'), 'action_illegal');
    expect(await waitForAudit('action.refused', 'retry')).toMatchObject({
      data: {
        code: 'action_illegal',
        reason: 'again',
        why_not: whyNotOnAllocation('retry', { status: 'active', deadline_at: null, node_id: fixture.node_id, node }),
      },
      node_id: fixture.node_id,
      allocation_id: fixture.allocation_id,
    });
    const { items } = await fixture.server.client.call('audit-list', { query: { kind: 'action.refused' } });
    expect(items.map(({ data }) => data.action).toSorted(), 'actions with a recorded refusal').toEqual([
      'retire',
      'retry',
    ]);
  });

  /**
   * Statuses in which each action succeeds although no machine answers. A missing action does not
   * compile.
   */
  const legalStatuses = {
    retry: { node: 'failed', allocation: 'failed', bound: true },
    'extend-deadline': { node: 'starting', hasOptionalFields: true },
    drain: { node: 'ready' },
    undrain: { node: 'draining' },
    quarantine: { node: 'ready' },
    reactivate: { node: 'quarantined' },
    'retry-release': { node: 'cleaning', allocation: 'release_failed', bound: true },
    'force-release': { node: 'cleaning', allocation: 'release_failed', bound: true },
    'accept-key': { node: 'cleaning', key: 'unproven' },
    'apply-held-verdict': { node: 'offline', hasOptionalFields: true },
    reimage: { node: 'ready', pool: 'local' },
    probe: { node: 'ready' },
    'collect-diagnostics': { node: 'quarantined' },
    're-enroll': { node: 'offline' },
    retire: { node: 'ready' },
  } satisfies Record<NodeActionName, Partial<SubjectStatuses> & { node: NodeStatus; pool?: 'local'; key?: 'unproven' }>;

  it.each(nodeActionNames)('records %s of a node, with actor and reason', async (action) => {
    const {
      pool,
      bound,
      key,
      ...statuses
    }: Partial<SubjectStatuses> & { node: NodeStatus; pool?: string; key?: string } = legalStatuses[action];
    await fixture.setStatuses({ allocation: 'released', bound: bound ?? false, hasOptionalFields: false, ...statuses });
    await fixture.db.query('update nodes set pool = $1', [pool ?? 'outside']);
    if (key === 'unproven')
      await fixture.db.query(
        `update instances set key_unproven_since = now(), agent_public_key = 'a key' where node_id = $1`,
        [fixture.node_id],
      );
    await fixture.db.query(`update nodes set held = held || '{"rule": "offline-deadline"}' where held is not null`);
    const reason = `${action} was needed`;
    const fingerprint = fingerprintOf('a key');
    const answer = await callRoute(
      fixture.server.url,
      'node-act',
      { params: { id: fixture.node_id, action }, body: { reason, seconds: 60, fingerprint } },
      { bearer: fixture.server.token },
    );
    expect(answer.status, answer.text).toBe(200);
    const { predicts, node } = answer.body as unknown as NodeActed;
    if (predicts.status === node.status && bound === undefined)
      expect(predicts.deadline_at, 'the predicted deadline').toBe(node.deadline_at);
    expect(await waitForAudit('action.done', action)).toMatchObject({
      layer: 'operator',
      data: { action, reason },
      actor: { kind: 'token', name: 'admin' },
      node_id: fixture.node_id,
    });
  });
});

describe('for an allocation whose machine is retired', () => {
  const act = (action: (typeof allocationActionNames)[number], more: object = {}) =>
    fixture.server.client.call('allocation-act', {
      params: { id: fixture.allocation_id, action },
      body: { reason: `${action} was needed`, ...more },
    });
  const countDoneFacts = async (action: string) =>
    fixture.db.countRows(
      `select 1 from evidence
       where kind = 'action.done'
         and allocation_id = $1
         and data ->> 'action' = $2
         and data ->> 'reason' = $3`,
      [fixture.allocation_id, action, `${action} was needed`],
    );

  /** Operations do not run here, so the forced release of an earlier test has to be cancelled. */
  const cancelForcedRelease = () =>
    fixture.db.query(
      `update operations
       set status = 'cancelled', finished_at = now()
       where kind = 'allocation-force-release' and status = 'queued'`,
    );

  it('retries a failed release', async () => {
    await cancelForcedRelease();
    await fixture.setStatuses({ node: 'retired', allocation: 'release_failed', bound: true, hasOptionalFields: false });
    const countBefore = await countDoneFacts('retry-release');
    const { allocation, operation, predicts } = await act('retry-release');
    expect(allocation.status).toBe('releasing');
    expect(operation).toMatchObject({ kind: 'allocation-release', status: 'queued' });
    expect(predicts.status).toBe('releasing');
    const difference = Date.parse(predicts.deadline_at ?? '') - Date.parse(allocation.deadline_at ?? '');
    expect(Math.abs(difference), 'milliseconds between the predicted and the set deadline').toBeLessThan(1_000);
    expect(await countDoneFacts('retry-release')).toBe(countBefore + 1);
  });

  it('refuses to retry a release that was forced, and names the operation of the forced release', async () => {
    await fixture.setStatuses({ node: 'retired', allocation: 'release_failed', bound: true, hasOptionalFields: false });
    await cancelForcedRelease();
    const forcedReleaseId =
      (await act('force-release')).operation?.workflow_id ?? expect.fail('no operation was started');
    // Restores the statuses from before the forced release, as a concurrent caller may have read
    // them.
    await fixture.setStatuses({ node: 'retired', allocation: 'release_failed', bound: true, hasOptionalFields: false });
    const countBefore = await countDoneFacts('retry-release');
    const params = { id: fixture.allocation_id, action: 'retry-release' };
    const answer = await callRoute(
      fixture.server.url,
      'allocation-act',
      { params, body: { reason: 'again' } },
      { bearer: fixture.server.token },
    );
    expectProblem(answer, 'action_illegal');
    expect(answer.body.detail).toContain(forcedReleaseId);
    expect(await countDoneFacts('retry-release')).toBe(countBefore);
    await cancelForcedRelease();
  });

  it('forces a release', async () => {
    await fixture.setStatuses({ node: 'retired', allocation: 'release_failed', bound: true, hasOptionalFields: false });
    await cancelForcedRelease();
    const countBefore = await countDoneFacts('force-release');
    const { allocation, operation, predicts } = await act('force-release');
    expect(allocation.status).toBe('releasing');
    expect(operation).toMatchObject({ kind: 'allocation-force-release', status: 'queued' });
    expect(predicts.status).toBe('released');
    expect(await countDoneFacts('force-release')).toBe(countBefore + 1);
    await cancelForcedRelease();
  });

  it('retries a failed allocation, then releases it', async () => {
    await fixture.setStatuses({ node: 'retired', allocation: 'failed', bound: true, hasOptionalFields: false });
    const countBefore = await countDoneFacts('retry');
    expect((await act('retry')).operation).toMatchObject({ kind: 'node-provision', status: 'queued' });
    expect(await countDoneFacts('retry')).toBe(countBefore + 1);
    expect((await act('release')).allocation.status).toBe('releasing');
    expect(await countDoneFacts('release')).toBe(1);
  });

  it('extends the deadline of an allocation, and of the step it waits in', async () => {
    await fixture.setStatuses({ node: 'retired', allocation: 'requested', bound: false, hasOptionalFields: true });
    const readSteps = () =>
      fixture.db.query<{ within_seconds: number }>(
        `select within_seconds
         from steps join operations using (workflow_id)
         where allocation_id = $1
           and operations.status = 'queued'
           and within_seconds is not null
         order by workflow_id, ordinal`,
        [fixture.allocation_id],
      );
    const stepsBefore = await readSteps();
    const { allocation } = await act('extend-deadline', { seconds: 600 });
    expect(allocation.deadline_at).toBe('2099-01-01T00:10:00.000Z');
    expect(stepsBefore.length).toBeGreaterThan(0);
    expect(await readSteps()).toEqual(
      stepsBefore.map(({ within_seconds }) => ({ within_seconds: within_seconds + 600 })),
    );
    expect(await countDoneFacts('extend-deadline')).toBe(1);
  });
});

it('predicts retired after a forced release if the teardown can be proven, and quarantined if not', async () => {
  await fixture.setStatuses({ node: 'cleaning', allocation: 'release_failed', bound: true, hasOptionalFields: false });
  const predictStatus = async (pool: string) => {
    await fixture.db.query('update nodes set pool = $1, pool_generation = 1', [pool]);
    const body = { reason: 'to see', dry_run: true };
    const { predicts } = await fixture.server.client.call('node-act', {
      params: { id: fixture.node_id, action: 'force-release' },
      body,
    });
    expect(predicts.says, 'the explanation of both outcomes').toMatch(/retired.*quarantined/);
    return predicts.status;
  };
  expect(await predictStatus('outside'), 'only the agent could prove the machine clean').toBe('quarantined');
  await fixture.server.client.call('pool-put', {
    params: { pool: 'single-use' },
    body: { driver: 'external', reuse: false },
  });
  expect(await predictStatus('single-use'), 'a revoked credential is the proof').toBe('retired');
  expect(await predictStatus('local'), 'the driver proves that nothing exists').toBe('retired');
  await fixture.db.query(`update nodes set pool = 'outside'`);
});
