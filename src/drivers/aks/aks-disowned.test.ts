/**
 * Tests clusters whose tags were changed, and a sign-in that expires while a cluster is created.
 */
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import { azureRole } from '../../../test/scenarios/support/azure.ts';
import { type AksFixture, aksFixture, loadSdks } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { paths } from '../../../test/support/arm/faults.ts';
import { Refusal } from '../../../test/support/arm/refusal.ts';
import { until } from '../../../test/support/until.ts';
import { handle } from '../conformance.ts';
import { clusterName } from './place.ts';

const arm = await startArm();
await loadSdks(arm);
let fixture: AksFixture;
beforeEach(() => {
  fixture = aksFixture(arm);
});
afterEach(() => fixture.close());
afterAll(() => arm.stop());

it('reports a cluster with changed tags as present but not ready, and does not delete its roles', async () => {
  const machine = handle(fixture, fixture.withSpec({ roles: [azureRole] }));
  await machine.done('ensure');
  arm.alter({ name: clusterName(machine.target) }, { tags: { owner: 'somebody' } });
  expect(await fixture.open().inspect(machine.target)).toMatchObject({
    ...{ present: true, ready: false, state: 'Running' },
    detail: expect.stringContaining('does not have the tags'),
  });
  expect(await machine.ended('destroy')).toMatchObject({ outcome: 'failed', code: 'name_of_another' });
  expect(arm.resources().filter(({ kind }) => kind === 'role_assignment')).toHaveLength(1);
});

it('waits if Azure refuses the sign-in while it creates the cluster', async () => {
  arm.hold('cluster_create');
  const target = fixture.withSpec({});
  await until('Azure to create the cluster', async () => {
    const answer = await fixture.open().ensure(target);
    if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    return answer.message.startsWith('AKS state: Creating') || undefined;
  });
  const expiredToken = new Refusal(
    401,
    'ExpiredAuthenticationToken',
    'The access token expiry time is earlier than now.',
  );
  arm.faults.next({ path: paths.cluster, times: 9, effect: expiredToken });
  expect(await fixture.open().ensure(target)).toMatchObject({ outcome: 'wait', put_off: true });
  // A launch whose cluster was not requested yet fails at once.
  expect(await fixture.open().ensure({ ...fixture.withSpec({}) })).toMatchObject({ outcome: 'failed' });
});
