/** AKS clusters that are released while Azure creates them, and one that fails after it exists. */
import { afterAll, beforeEach, expect } from 'vitest';
import type { Driver } from '../../../src/drivers/driver.ts';
import { release } from '../../support/allocations.ts';
import { startArm } from '../../support/arm/arm.ts';
import { paths } from '../../support/arm/faults.ts';
import { refusals } from '../../support/arm/refusal.ts';
import { allocateCluster, onAzure, waitForPhase, waitForProgress } from '../support/azure.ts';
import { allocationOf, waitForAllocation } from '../support/machines.ts';
import { type ScenarioContext, scenario } from '../support/scenario.ts';

/** A driver that deletes nothing and reports absence without checking. */
const fakesDeletion = (driver: Driver): Driver => {
  const done = async () => ({ outcome: 'done' as const, message: 'not deleted' });
  const prove: Driver['prove'] = async (_, { kind, nonce }) => ({
    outcome: 'done',
    proof: { kind, nonce, checked: [] },
  });
  return { ...driver, abort: done, destroy: done, prove };
};

const arm = await startArm();
afterAll(() => arm.stop());
beforeEach(() => arm.reset());

const waitForFact = (context: ScenarioContext, id: string, kind: string) =>
  context.waitFor(`${kind} on the timeline`, async () => {
    const { items } = await context.client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
    return items.some((fact) => fact.kind === kind) || undefined;
  });
const requestsTo = (method: string, path: RegExp) =>
  arm.requests.filter((request) => request.method === method && path.test(request.path));

scenario({
  name: 'released before Azure answers, while it creates, and while roles are assigned',
  settings: onAzure(() => arm),
  async story(context) {
    const { client, db } = context;
    // A new principal is not known everywhere at once, so role assignments are retried.
    arm.faults.role_assignments = refusals.principalNotFound();
    const inRoles = await allocateCluster(context, arm);
    await waitForPhase(context, inRoles, 'ensuring_rbac');

    arm.hold('pool:blastpool');
    const creatingId = await allocateCluster(context, arm);
    await waitForProgress(context, creatingId, 'the pools', ({ parts }) => parts.some(({ tone }) => tone === 'busy'));

    arm.hold('group_visible');
    const invisibleId = await allocateCluster(context, arm);
    await waitForProgress(context, invisibleId, 'the resource group', ({ message }) => /not visible yet/.test(message));

    const ids = [inRoles, creatingId, invisibleId];
    arm.hold('abort');
    for (const id of ids) await release(client, id);
    await context.waitFor('the abort to be requested', () => requestsTo('POST', paths.abort).length > 0 || undefined);
    expect((await allocationOf(context, creatingId)).status, 'the status before the abort is confirmed').toBe(
      'releasing',
    );
    arm.release('abort');
    // The release waits for a requested but invisible group, which would otherwise appear later.
    await waitForProgress(context, invisibleId, 'the release to wait for the resource group', ({ message }) =>
      /does not show it yet/.test(message),
    );
    arm.release('group_visible');
    for (const id of ids) {
      await waitForAllocation(context, id, 'released');
      await waitForFact(context, id, 'proof.absent');
      expect((await db.countEvidence(id, 'allocation.active')) + (await db.countEvidence(id, 'node.starting'))).toBe(0);
    }
    expect(arm.resources(), 'resources left in Azure').toEqual([]);
    expect(requestsTo('POST', paths.abort).filter(({ status }) => status === 202)).toHaveLength(1);
  },
  counterTests: [
    {
      broken: 'a driver that deletes nothing and reports absence without checking',
      composition: onAzure(() => arm, fakesDeletion),
      fails: /waited \d+ s for the abort to be requested/,
    },
  ],
});

scenario({
  name: 'a role assignment that is denied after the cluster exists fails the allocation, and the release removes all',
  settings: onAzure(() => arm),
  async story(context) {
    const { client } = context;
    arm.faults.role_assignments = refusals.denied();
    const id = await allocateCluster(context, arm);
    const failed = await waitForAllocation(context, id, 'failed');
    expect(failed.reason).toContain('AuthorizationFailed');
    // The refusal by Azure is final, so the verdict is certain.
    expect(failed).toMatchObject({ owner_layer: 'provider', verdict: { certain: true } });
    const { steps, progress, error } = await context.waitFor('the operation to end', async () => {
      const found = await client.call('operation-get', { params: { id: failed.workflow_id ?? '' } });
      return found.status === 'failed' ? found : undefined;
    });
    expect(steps.find(({ name }) => name === 'arm_create_or_update')?.status).toBe('done');
    expect(steps.find(({ name }) => name === 'ensuring_rbac')).toMatchObject({
      ...{ status: 'failed', error: { code: 'AuthorizationFailed', owner_layer: 'provider' } },
    });
    expect(progress).toMatchObject({
      phase: 'ensuring_rbac',
      status: 'failed',
      error: { code: 'AuthorizationFailed' },
    });
    expect(progress.percent).toBeLessThan(100);
    expect(error?.message).toContain('roleAssignments/write');
    expect(arm.resources().some(({ kind, state }) => kind === 'cluster' && state === 'Succeeded')).toBe(true);
    await release(client, id);
    await waitForAllocation(context, id, 'released');
    expect(arm.resources(), 'resources left in Azure').toEqual([]);
  },
  counterTests: [
    {
      broken: 'a driver that hides errors after the creation',
      composition: onAzure(
        () => arm,
        (driver) => ({
          ...driver,
          async ensure(target) {
            const answer = await driver.ensure(target);
            if (answer.outcome !== 'failed' || answer.phase !== 'ensuring_rbac') return answer;
            return { outcome: 'done', phase: 'completed', message: 'created' };
          },
        }),
      ),
      fails: /waited \d+ s for allocation to be failed/,
    },
  ],
});
