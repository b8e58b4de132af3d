/** Tests how the aks driver handles Azure's answers while a cluster is created. */
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AksFixture, aksFixture, loadSdks, usualSpec } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { paths } from '../../../test/support/arm/faults.ts';
import { Refusal, refusals } from '../../../test/support/arm/refusal.ts';
import { until } from '../../../test/support/until.ts';
import { handle } from '../conformance.ts';
import type { Driver, DriverOutcome, EnsureTarget } from '../driver.ts';
import { createCredential } from './azure/credential.ts';
import { clusterName } from './place.ts';
import { tagsOf } from './tags.ts';

const arm = await startArm();
await loadSdks(arm);
let fixture: AksFixture;
beforeEach(() => {
  fixture = aksFixture(arm);
});
afterEach(() => fixture.close());
afterAll(() => arm.stop());

const ensureOnce = async (driver: Driver, target: EnsureTarget): Promise<DriverOutcome> => {
  const answer = await driver.ensure(target);
  if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
  return answer;
};
const waitForAnswer = (target: EnsureTarget, matches: (answer: DriverOutcome) => boolean, driver = fixture.open()) =>
  until('the expected answer', async () => {
    const answer = await ensureOnce(driver, target);
    return matches(answer) ? answer : undefined;
  });
const hasPhase = (phase: string) => (answer: DriverOutcome) => answer.phase === phase;
const requests = (method: string, path: RegExp) =>
  arm.requests.filter((request) => request.method === method && path.test(request.path));

describe('the five phases of ensure', () => {
  it('reports each phase, and the state of each pool as Azure spells it', async () => {
    const release = arm.hold('pool:blastpool');
    arm.faults.percent = 40;
    const target = fixture.withSpec({});
    const driver = fixture.open();
    expect(await ensureOnce(driver, target)).toMatchObject({ outcome: 'wait', phase: 'creating_cluster' });
    expect(await ensureOnce(driver, target)).toMatchObject({ outcome: 'wait', phase: 'ensuring_resource_group' });
    await waitForAnswer(target, ({ message }) => message.includes('not visible yet'), driver);
    const creating = await waitForAnswer(target, ({ message }) => message.startsWith('AKS state'), driver);
    expect(creating.message).toMatch(/^AKS state: Creating · for \d+s · 40%$/);
    const halfDone = await waitForAnswer(
      target,
      (answer) => 'parts' in answer && answer.parts?.[0]?.tone === 'ok',
      driver,
    );
    expect(halfDone).toMatchObject({
      outcome: 'wait',
      phase: 'arm_create_or_update',
      mark: 'Creating · Running · systempool Succeeded 1n · blastpool Creating 10n · 40%',
      parts: [
        { name: 'systempool', kind: 'pool', state: 'Succeeded', tone: 'ok', count: 1 },
        { name: 'blastpool', kind: 'pool', state: 'Creating', tone: 'busy', count: 10 },
      ],
    });
    // Azure reports the power state `Running`, but the cluster is not complete, so it is not ready.
    expect(await driver.inspect(target)).toMatchObject({ state: 'Creating', present: true, ready: false });
    release();
    const done = await waitForAnswer(target, ({ outcome }) => outcome === 'done', driver);
    expect(done).toMatchObject({ phase: 'completed', parts: [{ tone: 'ok' }, { tone: 'ok' }] });
    expect(await driver.inspect(target)).toMatchObject({ state: 'Running', present: true, ready: true });
    expect(driver.plan(target.spec).map(({ phase }) => phase)).toEqual([
      'creating_cluster',
      'ensuring_resource_group',
      'arm_create_or_update',
      'ensuring_rbac',
      'completed',
    ]);
  });

  it('leaves out the percentage if Azure does not offer the latest-operation call', async () => {
    arm.faults.operations_latest = 'missing';
    arm.hold('cluster_create');
    const answer = await waitForAnswer(fixture.withSpec({}), ({ message }) => message.startsWith('AKS state'));
    expect(answer.message).toMatch(/^AKS state: Creating · for \d+s$/);
  });

  it('puts the tags into the create requests', async () => {
    const target = fixture.withSpec({ tags: { team: 'blast' } });
    await handle(fixture, target).done('ensure');
    const tags = { team: 'blast', ...tagsOf(target) };
    expect(requests('PUT', paths.group).map(({ body }) => body)).toEqual([{ location: 'westeurope', tags }]);
    expect(requests('PUT', paths.cluster).map(({ body }) => body)).toMatchObject([{ tags }]);
  });
});

describe('ensure fails with the code and message of Azure, and names the provider as owner', () => {
  const policyRefusal = new Refusal(403, 'RequestDisallowedByPolicy', 'Resource was disallowed by policy.');
  it.each([
    ['a refusal because of a quota', refusals.quota(), paths.cluster, 'arm_create_or_update', true],
    ['a refusal of the VM size', refusals.sku(), paths.cluster, 'arm_create_or_update', false],
    ['a refusal by a policy', policyRefusal, paths.cluster, 'arm_create_or_update', false],
    ['a missing permission', refusals.denied(), paths.group, 'ensuring_resource_group', true],
  ])('after %s', async (_, refusal, path, phase, retryable) => {
    arm.faults.next({ method: 'PUT', path, effect: refusal, times: 99 });
    const failure = await handle(fixture, fixture.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'provider', code: refusal.code, phase, retryable });
    expect(failure.message).toContain(refusal.message);
  });

  it('after the creation of the cluster failed', async () => {
    arm.faults.cluster_fails = refusals.quota();
    const target = fixture.withSpec({});
    const failure = await handle(fixture, target).ended('ensure');
    expect(failure).toMatchObject({ code: 'ErrCode_InsufficientVCPUQuota', phase: 'arm_create_or_update' });
    expect(failure.message).toMatch(/^AKS state: Failed.*Insufficient vcpu quota/);
    const diagnosis = await fixture.open().diagnose(target);
    expect(diagnosis).toMatchObject({ certain: true });
    expect(diagnosis.summary).toContain('Insufficient vcpu quota');
    expect(diagnosis.attachments.map(({ name }) => name)).toEqual(['agent-pools.txt', 'latest-operation.json']);
  });

  it('after the creation of a pool failed', async () => {
    arm.faults.pools_fail.set('blastpool', refusals.sku());
    const failure = await handle(fixture, fixture.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ code: 'VMSizeNotSupported', retryable: false });
    expect(failure.message).toContain('blastpool');
  });

  it('if the resource group of the pool does not exist', async () => {
    const failure = await handle(fixture, fixture.withSpec({ resource_group: 'shared-group' })).ended('ensure');
    expect(failure).toMatchObject({ code: 'ResourceGroupNotFound', retryable: true, phase: 'ensuring_resource_group' });
    expect(requests('PUT', paths.group)).toEqual([]);
  });

  it('if the account cannot see the subscription, and does not report the cluster as absent', async () => {
    const target = fixture.withSpec({ subscription_id: '99999999-9999-9999-9999-999999999999' });
    expect(await fixture.open().ensure(target)).toMatchObject({ outcome: 'failed', code: 'SubscriptionNotFound' });
    expect(await fixture.open().inspect(target)).toMatchObject({ present: true, unseen: true });
    const proof = await fixture.open().prove(target, { kind: 'absent', nonce: 'nonce-1' });
    expect(proof.outcome).toBe('failed');
  });
});

describe('ensure waits and retries', () => {
  it.each([
    ['Azure throttles the read', 'GET', paths.cluster, refusals.throttled(7), 7],
    ['Azure throttles the create request', 'PUT', paths.cluster, refusals.throttled(11), 11],
    ['another operation is in progress', 'PUT', paths.cluster, refusals.inProgress('Updating', 13), 13],
    ['Azure is unavailable', 'PUT', paths.group, refusals.unavailable(3), 3],
    ['Azure has an internal error', 'GET', paths.cluster, refusals.internal(), 5],
  ])('if %s', async (_, method, path, effect, retry_seconds) => {
    const target = fixture.withSpec({});
    // Match only this cluster. A driver call returns at its first error while its parallel requests
    // continue, so an earlier test may still have requests in flight.
    const clusterPath = new RegExp(path.source.replace('[^/]+$', `${clusterName(target)}$`), 'i');
    arm.faults.next({ method, path: clusterPath, effect });
    const answer = await waitForAnswer(target, ({ message }) => message.includes(effect.code));
    expect(answer).toMatchObject({ outcome: 'wait', retry_seconds });
    await handle(fixture, target).done('ensure');
    expect(arm.clustersCreated()).toBe(1);
  });

  it('if Azure cannot be reached, or drops the connection after the request', async () => {
    const target = fixture.withSpec({});
    arm.faults.next({ method: 'PUT', path: paths.cluster, effect: 'cut_after' });
    const cutAnswer = await waitForAnswer(target, ({ message }) => message.includes('is unavailable'));
    expect(cutAnswer).toMatchObject({ outcome: 'wait', retry_seconds: 5 });
    await arm.down();
    expect(await fixture.open().ensure(target)).toMatchObject({ outcome: 'wait' });
    expect(await fixture.open().inspect(target)).toMatchObject({ present: true, unseen: true });
    await arm.up();
    await handle(fixture, target).done('ensure');
    expect(arm.clustersCreated()).toBe(1);
  });
});

describe('a replica that takes over a launch', () => {
  it('polls the stored operation no earlier than Azure asks, and does not repeat the request', async () => {
    const release = arm.hold('cluster_create');
    const target = fixture.withSpec({});
    await waitForAnswer(target, ({ message }) => message.startsWith('AKS state'));
    expect(JSON.parse(String(target.state.operation))).toMatchObject({ state: { status: 'running' } });
    arm.requests.length = 0;
    for (let index = 0; index < 5; index++) await ensureOnce(fixture.open(), target);
    // Azure asked to poll the operation after a second. The cluster itself is read each time.
    expect(requests('GET', paths.async_operation).length).toBeLessThanOrEqual(1);
    expect(requests('GET', paths.cluster).length).toBeGreaterThanOrEqual(5);
    release();
    await handle(fixture, target).done('ensure');
    expect(requests('PUT', paths.cluster)).toEqual([]);
  });

  it('waits for a requested cluster that is not visible yet, and does not request another', async () => {
    arm.hold('cluster_visible');
    arm.hold('cluster_create');
    const target = fixture.withSpec({});
    const waiting = await waitForAnswer(target, ({ message }) => message.includes('accepted the request'));
    expect(waiting.phase).toBe('arm_create_or_update');
    expect((await ensureOnce(fixture.open(), target)).message).toContain('not visible yet');
    expect(await fixture.open().abort(target)).toMatchObject({ outcome: 'wait' });
    expect(await fixture.open().destroy(target)).toMatchObject({ outcome: 'wait' });
    expect(await fixture.open().prove(target, { kind: 'absent', nonce: 'nonce-1' })).toMatchObject({
      outcome: 'failed',
    });
    arm.release();
    await handle(fixture, target).done('ensure');
    expect(requests('PUT', paths.cluster).length).toBe(1);
  });

  it('does not recreate a cluster that somebody deleted', async () => {
    arm.hold('cluster_create');
    const target = fixture.withSpec({});
    await waitForAnswer(target, ({ message }) => message.startsWith('AKS state'));
    arm.reset();
    expect(await handle(fixture, target).ended('ensure')).toMatchObject({ outcome: 'failed', code: 'cluster_gone' });
  });
});

it('ensure and destroy do not change a resource group that has the expected name but not our tags', async () => {
  const target = fixture.withSpec({});
  arm.plant({ group: clusterName(target), location: 'westeurope', tags: { owner: 'somebody' } });
  const failure = { outcome: 'failed', owner_layer: 'provider', code: 'name_of_another', retryable: false };
  expect(await handle(fixture, target).ended('ensure')).toMatchObject(failure);
  expect(await handle(fixture, target).ended('destroy')).toMatchObject(failure);
  expect(arm.resources()).toMatchObject([{ kind: 'group', tags: { owner: 'somebody' } }]);
});

describe('role assignments', () => {
  it('a denied role assignment fails its phase, and is created when Azure allows it', async () => {
    arm.faults.role_assignments = refusals.denied();
    const machine = handle(fixture, fixture.withSpec({}));
    const failure = { code: 'AuthorizationFailed', phase: 'ensuring_rbac', owner_layer: 'provider', retryable: true };
    expect(await machine.ended('ensure')).toMatchObject({ outcome: 'failed', ...failure });
    expect(await fixture.machines(machine.target)).toBe(1);
    arm.faults.role_assignments = null;
    await machine.done('ensure');
    expect(arm.resources().filter(({ kind }) => kind === 'role_assignment').length).toBe(1);
  });

  it('waits until a new principal is visible to Azure', async () => {
    arm.faults.role_assignments = refusals.principalNotFound();
    const target = fixture.withSpec({});
    const isRefused = (answer: DriverOutcome) =>
      hasPhase('ensuring_rbac')(answer) && /PrincipalNotFound/.test(answer.message);
    expect(await waitForAnswer(target, isRefused)).toMatchObject({ outcome: 'wait', retry_seconds: 10 });
    arm.faults.role_assignments = null;
    await handle(fixture, target).done('ensure');
  });

  it('accepts a conflict if the same role is already assigned, and fails on any other conflict', async () => {
    const conflict = new Refusal(409, 'RoleAssignmentExists', 'The role assignment already exists.');
    const { roles = [] } = usualSpec(arm.subscription_id);
    const scope = `/subscriptions/${arm.subscription_id}`;
    fixture = aksFixture(arm, { allow_roles_anywhere: true });
    const subscriptionRoles = roles.map((role) => ({ ...role, scope }));
    await handle(fixture, fixture.withSpec({ roles: subscriptionRoles })).done('ensure');
    await handle(fixture, fixture.withSpec({ roles: subscriptionRoles })).done('ensure');
    expect(arm.resources().filter(({ kind }) => kind === 'role_assignment').length).toBe(1);
    arm.faults.role_assignments = conflict;
    const failure = await handle(fixture, fixture.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ outcome: 'failed', code: 'RoleAssignmentExists', phase: 'ensuring_rbac' });
  });
});

describe('secrets', () => {
  const expectNoSecrets = (answers: unknown, target: EnsureTarget) => {
    const text = JSON.stringify(answers);
    const { operation } = target.state;
    const signature = /[?&]h=([^&"]+)/.exec(String(operation))?.[1];
    for (const secret of [arm.client_secret, 'arm-planted-token', signature])
      if (secret) expect(text).not.toContain(secret);
  };

  it('no answer contains a secret that Azure quotes in its message', async () => {
    const target = fixture.withSpec({});
    const driver = fixture.open();
    arm.hold('cluster_create');
    await waitForAnswer(target, ({ message }) => message.startsWith('AKS state'), driver);
    const pollUrl = JSON.parse(String(target.state.operation)).state.config.operationLocation as string;
    expect(pollUrl).toMatch(/[?&]h=/);
    const leakingRefusal = new Refusal(
      400,
      'BadRequest',
      `no: ${arm.client_secret} at ${pollUrl} with Bearer arm-planted-token-123456`,
    );
    for (const path of [paths.cluster, paths.role_assignment, paths.group])
      arm.faults.next({ path, effect: leakingRefusal, times: 99 });
    const { state: _state, ...ensured } = { state: null, ...(await driver.ensure(target)) };
    expectNoSecrets(
      [
        ensured,
        await driver.inspect(target),
        await driver.destroy(target),
        await driver.abort(target),
        await driver.diagnose(target),
        await driver.prove(target, { kind: 'absent', nonce: 'nonce-1' }),
        await driver.list_owned(fixture.installation_id).catch((error: Error) => error.message),
      ],
      target,
    );
    expect(ensured.message).toContain('[struck out]');
  });

  it('reports a failed sign-in without the client secret', async () => {
    const environment = { ...arm.environment(), AZURE_CLIENT_SECRET: 'wrong-planted-secret' };
    const credential = createCredential(environment, arm.ca);
    fixture = aksFixture(arm, { environment, credential });
    const answer = await fixture.open().ensure(fixture.withSpec({}));
    expect(answer).toMatchObject({ outcome: 'failed', code: 'azure_sign_in_failed', retryable: true });
    expect(answer.message).toContain('AADSTS7000215');
    expect(JSON.stringify(answer)).not.toContain('wrong-planted-secret');
  });
});
