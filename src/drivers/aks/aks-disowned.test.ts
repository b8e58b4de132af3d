/** A cluster that somebody else has changed is not called gone, and nothing is taken from it. */
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
let world: AksFixture;
beforeEach(() => {
  world = aksFixture(arm);
});
afterEach(() => world.close());
afterAll(() => arm.stop());

it('a cluster with changed tags is present, not ready, names the remedy, and keeps its roles', async () => {
  const machine = handle(world, world.withSpec({ roles: [azureRole] }));
  await machine.done('ensure');
  arm.alter({ name: clusterName(machine.target) }, { tags: { owner: 'somebody' } });
  expect(await world.open().observe(machine.target)).toMatchObject({
    ...{ present: true, ready: false, state: 'Running' },
    detail: expect.stringContaining('no longer carries the tags'),
  });
  expect(await machine.ended('destroy')).toMatchObject({ outcome: 'failed', code: 'name_of_another' });
  expect(arm.resources().filter(({ kind }) => kind === 'role_assignment')).toHaveLength(1);
});

it('waits while Azure creates it and refuses the sign-in', async () => {
  arm.hold('cluster_create');
  const target = world.withSpec({});
  await until('Azure to be at work', async () => {
    const answer = await world.open().ensure(target);
    if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    return answer.message.startsWith('AKS state: Creating') || undefined;
  });
  const expired = new Refusal(401, 'ExpiredAuthenticationToken', 'The access token expiry time is earlier than now.');
  arm.faults.next({ path: paths.cluster, times: 9, effect: expired });
  expect(await world.open().ensure(target)).toMatchObject({ outcome: 'wait', put_off: true });
  // Before anything was requested, waiting would gain nothing.
  expect(await world.open().ensure({ ...world.withSpec({}) })).toMatchObject({ outcome: 'failed' });
});
