/** The resources that the aks driver deletes, and those it never does. */
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import { type AksFixture, aksFixture, loadSdks } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { paths } from '../../../test/support/arm/faults.ts';
import { until } from '../../../test/support/until.ts';
import { handle } from '../conformance.ts';
import type { EnsureTarget } from '../driver.ts';
import { clusterName } from './place.ts';

const arm = await startArm();
await loadSdks(arm);
let world: AksFixture;
beforeEach(() => {
  world = aksFixture(arm);
});
afterEach(() => world.close());
afterAll(() => arm.stop());

const creating = (target: EnsureTarget) =>
  until('Azure to be at work', async () => {
    const answer = await world.open().ensure(target);
    if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    return answer.message.startsWith('AKS state: Creating') ? true : undefined;
  });
const kinds = () => new Set(arm.resources().map(({ kind }) => kind));
const storage = (group: string) => ({ group, name: 'theirs', type: 'Microsoft.Storage/storageAccounts' });

it('aborts the running operation, and is done only when it is seen to have ended', async () => {
  arm.hold('cluster_create');
  const release = arm.hold('abort');
  const machine = handle(world, world.withSpec({}));
  await creating(machine.target);
  expect(await world.open().abort(machine.target)).toMatchObject({ outcome: 'wait' });
  expect(await world.open().abort(machine.target)).toMatchObject({
    outcome: 'wait',
    message: expect.stringContaining('Canceling'),
  });
  expect(arm.requests.filter(({ path }) => paths.abort.test(path)).length).toBe(1);
  release();
  await machine.done('abort');
  expect(await machine.ended('ensure')).toMatchObject({ outcome: 'failed', code: 'Canceled' });
  await machine.done('destroy');
  expect(arm.resources()).toEqual([]);
});

it('destroys a cluster that is still being created, without an abort first', async () => {
  arm.hold('cluster_create');
  const machine = handle(world, world.withSpec({}));
  await creating(machine.target);
  await machine.done('destroy');
  expect(arm.resources()).toEqual([]);
});

it('deletes its cluster from a named group and keeps the group', async () => {
  arm.plant({ group: 'theirs', location: 'westeurope' });
  const machine = handle(world, world.withSpec({ resource_group: 'theirs' }));
  await machine.done('ensure');
  expect(arm.requests.filter(({ method, path }) => method === 'PUT' && paths.group.test(path))).toEqual([]);
  await machine.done('destroy');
  expect(arm.resources()).toMatchObject([{ kind: 'group', tags: {} }]);
  expect(await world.open().prove(machine.target, { kind: 'absent', nonce: 'asked' })).toMatchObject({
    outcome: 'done',
  });
});

it('does not call a cluster absent whose request may have been accepted before a crash', async () => {
  arm.plant({ group: 'theirs', location: 'westeurope' });
  arm.hold('cluster_visible');
  arm.faults.next({ method: 'PUT', path: paths.cluster, effect: 'cut_after' });
  const machine = handle(world, world.withSpec({ resource_group: 'theirs' }));
  await until('the request', async () => {
    const answer = await world.open().ensure(machine.target);
    if (answer.outcome !== 'failed' && answer.state) machine.target.state = answer.state;
    return arm.clustersCreated() === 1;
  });
  expect(machine.target.state.operation).toBeUndefined();
  expect(await world.open().abort(machine.target)).toMatchObject({ outcome: 'wait' });
  expect(await world.open().destroy(machine.target)).toMatchObject({ outcome: 'wait' });
  const proof = await world.open().prove(machine.target, { kind: 'absent', nonce: 'asked' });
  expect(proof).toMatchObject({ outcome: 'failed', code: 'not_absent' });
  arm.release();
  await machine.done('destroy');
  expect(kinds()).toEqual(new Set(['group']));
});

it('does not delete its own group while it contains foreign resources, and names them', async () => {
  const machine = handle(world, world.withSpec({}));
  await machine.done('ensure');
  arm.plant({ foreign: { ...storage(clusterName(machine.target)), location: 'westeurope', tags: {} } });
  const failure = await machine.ended('destroy');
  expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'provider', code: 'foreign_resources' });
  expect(failure.message).toContain('storageAccounts/theirs');
  expect(kinds()).toEqual(new Set(['group', 'foreign']));
});

it('does not delete a cluster that lost its tags', async () => {
  const machine = handle(world, world.withSpec({}));
  await machine.done('ensure');
  arm.alter({ name: clusterName(machine.target) }, { tags: {} });
  expect(await machine.ended('destroy')).toMatchObject({ outcome: 'failed', code: 'name_of_another' });
  expect(await world.machines(machine.target)).toBe(0);
  expect(kinds().has('cluster')).toBe(true);
  const proof = await world.open().prove(machine.target, { kind: 'absent', nonce: 'asked' });
  expect(proof).toMatchObject({ outcome: 'failed', code: 'not_absent' });
});

it('finds resources of an unknown pool by tag, and deletes all of them', async () => {
  arm.plant({ group: 'theirs', location: 'westeurope' });
  const made = handle(world, world.withSpec({ resource_group: 'theirs' }));
  await made.done('ensure');
  const listed = await world.open().list_owned(world.installation_id);
  expect(listed).toMatchObject([{ kind: 'cluster', node_instance_id: made.target.node_instance_id }]);
  const forgotten = { ...made.target, spec: null, state: {} };
  await handle(world, forgotten).done('destroy');
  expect(kinds()).toEqual(new Set(['group']));
});

it("two installations in one subscription do not touch each other's resources", async () => {
  const other = aksFixture(arm);
  const [ours, theirs] = [handle(world, world.withSpec({})), handle(other, other.withSpec({}))];
  await ours.done('ensure');
  await theirs.done('ensure');
  // The same instance under another installation is not its own.
  const claimed = { ...theirs.target, installation_id: world.installation_id };
  expect(await handle(world, claimed).ended('destroy')).toMatchObject({ code: 'name_of_another' });
  await ours.done('destroy');
  expect(await world.open().list_owned(world.installation_id)).toEqual([]);
  expect(await other.machines(theirs.target)).toBe(1);
});

it('calls Azure only if a pool uses it', async () => {
  world = aksFixture(arm, { subscriptionsInUse: async () => [] });
  expect(await world.open().list_owned(world.installation_id)).toEqual([]);
  expect(arm.requests).toEqual([]);
});
