/** How the aks driver handles Azure's answers while a cluster comes up. */
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
let world: AksFixture;
beforeEach(() => {
  world = aksFixture(arm);
});
afterEach(() => world.close());
afterAll(() => arm.stop());

const step = async (driver: Driver, target: EnsureTarget): Promise<DriverOutcome> => {
  const answer = await driver.ensure(target);
  if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
  return answer;
};
const answerOf = (target: EnsureTarget, fits: (answer: DriverOutcome) => boolean, driver = world.open()) =>
  until('that answer', async () => {
    const answer = await step(driver, target);
    return fits(answer) ? answer : undefined;
  });
const inPhase = (phase: string) => (answer: DriverOutcome) => answer.phase === phase;
const requests = (method: string, path: RegExp) =>
  arm.requests.filter((request) => request.method === method && path.test(request.path));

describe('the five steps', () => {
  it("passes through each, with a part per pool and Azure's own state", async () => {
    const release = arm.hold('pool:blastpool');
    arm.faults.percent = 40;
    const target = world.withSpec({});
    const driver = world.open();
    expect(await step(driver, target)).toMatchObject({ outcome: 'wait', phase: 'creating_cluster' });
    expect(await step(driver, target)).toMatchObject({ outcome: 'wait', phase: 'ensuring_resource_group' });
    await answerOf(target, ({ message }) => message.includes('not visible yet'), driver);
    const creating = await answerOf(target, ({ message }) => message.startsWith('AKS state'), driver);
    expect(creating.message).toMatch(/^AKS state: Creating · ARM \d+s · 40%$/);
    const half = await answerOf(target, (answer) => 'parts' in answer && answer.parts?.[0]?.tone === 'ok', driver);
    expect(half).toMatchObject({
      outcome: 'wait',
      phase: 'arm_create_or_update',
      mark: 'Creating · Running · systempool Succeeded 1n · blastpool Creating 10n · 40%',
      parts: [
        { name: 'systempool', kind: 'pool', state: 'Succeeded', tone: 'ok', count: 1 },
        { name: 'blastpool', kind: 'pool', state: 'Creating', tone: 'busy', count: 10 },
      ],
    });
    // Azure says `Running`, but the cluster is not complete and so not ready.
    expect(await driver.observe(target)).toMatchObject({ state: 'Creating', present: true, ready: false });
    release();
    const done = await answerOf(target, ({ outcome }) => outcome === 'done', driver);
    expect(done).toMatchObject({ phase: 'completed', parts: [{ tone: 'ok' }, { tone: 'ok' }] });
    expect(await driver.observe(target)).toMatchObject({ state: 'Running', present: true, ready: true });
    expect(driver.plan(target.spec).map(({ phase }) => phase)).toEqual([
      'creating_cluster',
      'ensuring_resource_group',
      'arm_create_or_update',
      'ensuring_rbac',
      'completed',
    ]);
  });

  it('works without a percentage if Azure does not offer it', async () => {
    arm.faults.operations_latest = 'missing';
    arm.hold('cluster_create');
    const answer = await answerOf(world.withSpec({}), ({ message }) => message.startsWith('AKS state'));
    expect(answer.message).toMatch(/^AKS state: Creating · ARM \d+s$/);
  });

  it('puts the tags into the create requests', async () => {
    const target = world.withSpec({ tags: { team: 'blast' } });
    await handle(world, target).done('ensure');
    const tags = { team: 'blast', ...tagsOf(target) };
    expect(requests('PUT', paths.group).map(({ body }) => body)).toEqual([{ location: 'westeurope', tags }]);
    expect(requests('PUT', paths.cluster).map(({ body }) => body)).toMatchObject([{ tags }]);
  });
});

describe('a refusal by Azure fails with its code and message, owned by the provider', () => {
  const policy = new Refusal(403, 'RequestDisallowedByPolicy', 'Resource was disallowed by policy.');
  it.each([
    ['quota', refusals.quota(), paths.cluster, 'arm_create_or_update', true],
    ['size', refusals.sku(), paths.cluster, 'arm_create_or_update', false],
    ['policy', policy, paths.cluster, 'arm_create_or_update', false],
    ['rights', refusals.denied(), paths.group, 'ensuring_resource_group', true],
  ])('%s', async (_, refusal, path, phase, retryable) => {
    arm.faults.next({ method: 'PUT', path, effect: refusal, times: 99 });
    const failure = await handle(world, world.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'provider', code: refusal.code, phase, retryable });
    expect(failure.message).toContain(refusal.message);
  });

  it('a cluster whose creation failed', async () => {
    arm.faults.cluster_fails = refusals.quota();
    const target = world.withSpec({});
    const failure = await handle(world, target).ended('ensure');
    expect(failure).toMatchObject({ code: 'ErrCode_InsufficientVCPUQuota', phase: 'arm_create_or_update' });
    expect(failure.message).toMatch(/^AKS state: Failed.*Insufficient vcpu quota/);
    const diagnosis = await world.open().diagnose(target);
    expect(diagnosis).toMatchObject({ certain: true });
    expect(diagnosis.summary).toContain('Insufficient vcpu quota');
    expect(diagnosis.attachments.map(({ name }) => name)).toEqual(['agent-pools.txt', 'latest-operation.json']);
  });

  it('a failed pool', async () => {
    arm.faults.pools_fail.set('blastpool', refusals.sku());
    const failure = await handle(world, world.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ code: 'VMSizeNotSupported', retryable: false });
    expect(failure.message).toContain('blastpool');
  });

  it('a named group that does not exist', async () => {
    const failure = await handle(world, world.withSpec({ resource_group: 'theirs' })).ended('ensure');
    expect(failure).toMatchObject({ code: 'ResourceGroupNotFound', retryable: true, phase: 'ensuring_resource_group' });
    expect(requests('PUT', paths.group)).toEqual([]);
  });

  it('an invisible subscription is not one without clusters', async () => {
    const target = world.withSpec({ subscription_id: '99999999-9999-9999-9999-999999999999' });
    expect(await world.open().ensure(target)).toMatchObject({ outcome: 'failed', code: 'SubscriptionNotFound' });
    expect(await world.open().observe(target)).toMatchObject({ present: true, unseen: true });
    const proof = await world.open().prove(target, { kind: 'absent', nonce: 'requests' });
    expect(proof.outcome).toBe('failed');
  });
});

describe('retry later is no failure', () => {
  it.each([
    ['throttling of the look', 'GET', paths.cluster, refusals.throttled(7), 7],
    ['throttling of the request', 'PUT', paths.cluster, refusals.throttled(11), 11],
    ['an operation in progress', 'PUT', paths.cluster, refusals.inProgress('Updating', 13), 13],
    ['an Azure that is busy', 'PUT', paths.group, refusals.unavailable(3), 3],
    ['an error of its own', 'GET', paths.cluster, refusals.internal(), 5],
  ])('%s', async (_, method, path, effect, retry_seconds) => {
    const target = world.withSpec({});
    // Only its own requests: a call that ended with the first of several refusals leaves others
    // running.
    const own = new RegExp(path.source.replace('[^/]+$', `${clusterName(target)}$`), 'i');
    arm.faults.next({ method, path: own, effect });
    const answer = await answerOf(target, ({ message }) => message.includes(effect.code));
    expect(answer).toMatchObject({ outcome: 'wait', retry_seconds });
    await handle(world, target).done('ensure');
    expect(arm.clustersCreated()).toBe(1);
  });

  it('an Azure that cannot be reached, or drops the connection after the request', async () => {
    const target = world.withSpec({});
    arm.faults.next({ method: 'PUT', path: paths.cluster, effect: 'cut_after' });
    const cut = await answerOf(target, ({ message }) => message.includes('does not answer'));
    expect(cut).toMatchObject({ outcome: 'wait', retry_seconds: 5 });
    await arm.down();
    expect(await world.open().ensure(target)).toMatchObject({ outcome: 'wait' });
    expect(await world.open().observe(target)).toMatchObject({ present: true, unseen: true });
    await arm.up();
    await handle(world, target).done('ensure');
    expect(arm.clustersCreated()).toBe(1);
  });
});

describe('a replica that takes over', () => {
  it('follows the stored operation, requests nothing twice, and polls no earlier than Azure wants', async () => {
    const release = arm.hold('cluster_create');
    const target = world.withSpec({});
    await answerOf(target, ({ message }) => message.startsWith('AKS state'));
    expect(JSON.parse(String(target.state.operation))).toMatchObject({ state: { status: 'running' } });
    arm.requests.length = 0;
    for (let each = 0; each < 5; each++) await step(world.open(), target);
    // It said to retry in a second; the cluster itself is read each time.
    expect(requests('GET', paths.async_operation).length).toBeLessThanOrEqual(1);
    expect(requests('GET', paths.cluster).length).toBeGreaterThanOrEqual(5);
    release();
    await handle(world, target).done('ensure');
    expect(requests('PUT', paths.cluster)).toEqual([]);
  });

  it('waits for a requested cluster that is not visible, and requests no second one', async () => {
    arm.hold('cluster_visible');
    arm.hold('cluster_create');
    const target = world.withSpec({});
    const waiting = await answerOf(target, ({ message }) => message.includes('took the request'));
    expect(waiting.phase).toBe('arm_create_or_update');
    expect((await step(world.open(), target)).message).toContain('not visible yet');
    expect(await world.open().abort(target)).toMatchObject({ outcome: 'wait' });
    expect(await world.open().destroy(target)).toMatchObject({ outcome: 'wait' });
    expect(await world.open().prove(target, { kind: 'absent', nonce: 'requests' })).toMatchObject({
      outcome: 'failed',
    });
    arm.release();
    await handle(world, target).done('ensure');
    expect(requests('PUT', paths.cluster).length).toBe(1);
  });

  it('leaves a resource with its name but without its tags alone', async () => {
    const target = world.withSpec({});
    arm.plant({ group: clusterName(target), location: 'westeurope', tags: { theirs: 'yes' } });
    const failure = { outcome: 'failed', owner_layer: 'provider', code: 'name_of_another', retryable: false };
    expect(await handle(world, target).ended('ensure')).toMatchObject(failure);
    expect(await handle(world, target).ended('destroy')).toMatchObject(failure);
    expect(arm.resources()).toMatchObject([{ kind: 'group', tags: { theirs: 'yes' } }]);
  });

  it('does not recreate a cluster that somebody deleted', async () => {
    arm.hold('cluster_create');
    const target = world.withSpec({});
    await answerOf(target, ({ message }) => message.startsWith('AKS state'));
    arm.reset();
    expect(await handle(world, target).ended('ensure')).toMatchObject({ outcome: 'failed', code: 'cluster_gone' });
  });
});

describe('role assignments', () => {
  it('a refused one fails the step, and is created once it is allowed', async () => {
    arm.faults.role_assignments = refusals.denied();
    const machine = handle(world, world.withSpec({}));
    const failure = { code: 'AuthorizationFailed', phase: 'ensuring_rbac', owner_layer: 'provider', retryable: true };
    expect(await machine.ended('ensure')).toMatchObject({ outcome: 'failed', ...failure });
    expect(await world.machines(machine.target)).toBe(1);
    arm.faults.role_assignments = null;
    await machine.done('ensure');
    expect(arm.resources().filter(({ kind }) => kind === 'role_assignment').length).toBe(1);
  });

  it('waits for a new principal', async () => {
    arm.faults.role_assignments = refusals.principalNotFound();
    const target = world.withSpec({});
    const refused = (answer: DriverOutcome) =>
      inPhase('ensuring_rbac')(answer) && /PrincipalNotFound/.test(answer.message);
    expect(await answerOf(target, refused)).toMatchObject({ outcome: 'wait', retry_seconds: 10 });
    arm.faults.role_assignments = null;
    await handle(world, target).done('ensure');
  });

  it('accepts the same role given by somebody else, and no other "exists"', async () => {
    const exists = new Refusal(409, 'RoleAssignmentExists', 'The role assignment already exists.');
    const { roles = [] } = usualSpec(arm.subscription_id);
    const scope = `/subscriptions/${arm.subscription_id}`;
    world = aksFixture(arm, { allow_roles_anywhere: true });
    const wide = roles.map((role) => ({ ...role, scope }));
    await handle(world, world.withSpec({ roles: wide })).done('ensure');
    await handle(world, world.withSpec({ roles: wide })).done('ensure');
    expect(arm.resources().filter(({ kind }) => kind === 'role_assignment').length).toBe(1);
    arm.faults.role_assignments = exists;
    const failure = await handle(world, world.withSpec({})).ended('ensure');
    expect(failure).toMatchObject({ outcome: 'failed', code: 'RoleAssignmentExists', phase: 'ensuring_rbac' });
  });
});

describe('secrets', () => {
  const findsNone = (said: unknown, target: EnsureTarget) => {
    const text = JSON.stringify(said);
    const { operation } = target.state;
    const signature = /[?&]h=([^&"]+)/.exec(String(operation))?.[1];
    for (const secret of [arm.client_secret, 'arm-planted-token', signature])
      if (secret) expect(text).not.toContain(secret);
  };

  it('no answer contains one, whatever Azure says', async () => {
    const target = world.withSpec({});
    const driver = world.open();
    arm.hold('cluster_create');
    await answerOf(target, ({ message }) => message.startsWith('AKS state'), driver);
    const address = JSON.parse(String(target.state.operation)).state.config.operationLocation as string;
    expect(address).toMatch(/[?&]h=/);
    const tattle = new Refusal(
      400,
      'BadRequest',
      `no: ${arm.client_secret} at ${address} with Bearer arm-planted-token-123456`,
    );
    for (const path of [paths.cluster, paths.role_assignment, paths.group])
      arm.faults.next({ path, effect: tattle, times: 99 });
    const { state: _kept, ...ensured } = { state: null, ...(await driver.ensure(target)) };
    findsNone(
      [
        ensured,
        await driver.observe(target),
        await driver.destroy(target),
        await driver.abort(target),
        await driver.diagnose(target),
        await driver.prove(target, { kind: 'absent', nonce: 'requests' }),
        await driver.list_owned(world.installation_id).catch((error: Error) => error.message),
      ],
      target,
    );
    expect(ensured.message).toContain('[struck out]');
  });

  it('reports a failed sign-in without its secret', async () => {
    const environment = { ...arm.environment(), AZURE_CLIENT_SECRET: 'wrong-planted-secret' };
    const credential = createCredential(environment, arm.ca);
    world = aksFixture(arm, { environment, credential });
    const answer = await world.open().ensure(world.withSpec({}));
    expect(answer).toMatchObject({ outcome: 'failed', code: 'azure_sign_in_failed', retryable: true });
    expect(answer.message).toContain('AADSTS7000215');
    expect(JSON.stringify(answer)).not.toContain('wrong-planted-secret');
  });
});
