/** Tests which resources the aks driver deletes, and which it never deletes. */
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
let fixture: AksFixture;
beforeEach(() => {
  fixture = aksFixture(arm);
});
afterEach(() => fixture.close());
afterAll(() => arm.stop());

const waitUntilCreating = (target: EnsureTarget) =>
  until('Azure to start creating the cluster', async () => {
    const answer = await fixture.open().ensure(target);
    if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    return answer.message.startsWith('AKS state: Creating') ? true : undefined;
  });
const kindsInAzure = () => new Set(arm.resources().map(({ kind }) => kind));
const storageAccount = (group: string) => ({ group, name: 'shared', type: 'Microsoft.Storage/storageAccounts' });

it('aborts the running operation, and reports done only after Azure reports that it ended', async () => {
  arm.hold('cluster_create');
  const release = arm.hold('abort');
  const machine = handle(fixture, fixture.withSpec({}));
  await waitUntilCreating(machine.target);
  expect(await fixture.open().abort(machine.target)).toMatchObject({ outcome: 'wait' });
  expect(await fixture.open().abort(machine.target)).toMatchObject({
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

it('destroys a cluster that is still being created and was not aborted before', async () => {
  arm.hold('cluster_create');
  const machine = handle(fixture, fixture.withSpec({}));
  await waitUntilCreating(machine.target);
  await machine.done('destroy');
  expect(arm.resources()).toEqual([]);
});

it('deletes its cluster but not the resource group that the pool names', async () => {
  arm.plant({ group: 'shared-group', location: 'westeurope' });
  const machine = handle(fixture, fixture.withSpec({ resource_group: 'shared-group' }));
  await machine.done('ensure');
  expect(arm.requests.filter(({ method, path }) => method === 'PUT' && paths.group.test(path))).toEqual([]);
  await machine.done('destroy');
  expect(arm.resources()).toMatchObject([{ kind: 'group', tags: {} }]);
  expect(await fixture.open().prove(machine.target, { kind: 'absent', nonce: 'nonce-1' })).toMatchObject({
    outcome: 'done',
  });
});

it('does not report a cluster as absent if the answer to its create request was lost', async () => {
  arm.plant({ group: 'shared-group', location: 'westeurope' });
  arm.hold('cluster_visible');
  arm.faults.next({ method: 'PUT', path: paths.cluster, effect: 'cut_after' });
  const machine = handle(fixture, fixture.withSpec({ resource_group: 'shared-group' }));
  await until('the cluster to be requested', async () => {
    const answer = await fixture.open().ensure(machine.target);
    if (answer.outcome !== 'failed' && answer.state) machine.target.state = answer.state;
    return arm.clustersCreated() === 1;
  });
  expect(machine.target.state.operation).toBeUndefined();
  expect(await fixture.open().abort(machine.target)).toMatchObject({ outcome: 'wait' });
  expect(await fixture.open().destroy(machine.target)).toMatchObject({ outcome: 'wait' });
  const proof = await fixture.open().prove(machine.target, { kind: 'absent', nonce: 'nonce-1' });
  expect(proof).toMatchObject({ outcome: 'failed', code: 'not_absent' });
  arm.release();
  await machine.done('destroy');
  expect(kindsInAzure()).toEqual(new Set(['group']));
});

it('does not delete its own group while the group contains foreign resources, and names them', async () => {
  const machine = handle(fixture, fixture.withSpec({}));
  await machine.done('ensure');
  arm.plant({ foreign: { ...storageAccount(clusterName(machine.target)), location: 'westeurope', tags: {} } });
  const failure = await machine.ended('destroy');
  expect(failure).toMatchObject({ outcome: 'failed', owner_layer: 'provider', code: 'foreign_resources' });
  expect(failure.message).toContain('storageAccounts/shared');
  expect(kindsInAzure()).toEqual(new Set(['group', 'foreign']));
});

it('does not delete a cluster that lost its tags', async () => {
  const machine = handle(fixture, fixture.withSpec({}));
  await machine.done('ensure');
  arm.alter({ name: clusterName(machine.target) }, { tags: {} });
  expect(await machine.ended('destroy')).toMatchObject({ outcome: 'failed', code: 'name_of_another' });
  // `machines` counts by tags, so it does not see the cluster any more.
  expect(await fixture.machines(machine.target)).toBe(0);
  expect(kindsInAzure().has('cluster')).toBe(true);
  const proof = await fixture.open().prove(machine.target, { kind: 'absent', nonce: 'nonce-1' });
  expect(proof).toMatchObject({ outcome: 'failed', code: 'not_absent' });
});

it('finds a cluster by its tags if spec and state are lost, and deletes it', async () => {
  arm.plant({ group: 'shared-group', location: 'westeurope' });
  const machine = handle(fixture, fixture.withSpec({ resource_group: 'shared-group' }));
  await machine.done('ensure');
  const listed = await fixture.open().list_owned(fixture.installation_id);
  expect(listed).toMatchObject([{ kind: 'cluster', node_instance_id: machine.target.node_instance_id }]);
  const lostTarget = { ...machine.target, spec: null, state: {} };
  await handle(fixture, lostTarget).done('destroy');
  expect(kindsInAzure()).toEqual(new Set(['group']));
});

it("two installations in one subscription do not change each other's resources", async () => {
  const other = aksFixture(arm);
  const machine = handle(fixture, fixture.withSpec({}));
  const otherMachine = handle(other, other.withSpec({}));
  await machine.done('ensure');
  await otherMachine.done('ensure');
  // The instance id alone is not enough: the tags name the other installation.
  const foreignTarget = { ...otherMachine.target, installation_id: fixture.installation_id };
  expect(await handle(fixture, foreignTarget).ended('destroy')).toMatchObject({ code: 'name_of_another' });
  await machine.done('destroy');
  expect(await fixture.open().list_owned(fixture.installation_id)).toEqual([]);
  expect(await other.machines(otherMachine.target)).toBe(1);
});

it('does not call Azure if no pool uses the driver', async () => {
  fixture = aksFixture(arm, { subscriptionsInUse: async () => [] });
  expect(await fixture.open().list_owned(fixture.installation_id)).toEqual([]);
  expect(arm.requests).toEqual([]);
});
