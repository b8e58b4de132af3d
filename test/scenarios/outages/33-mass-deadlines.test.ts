/**
 * Many machines fail to come up at once. Their verdicts are written, and the brake pauses launches,
 * so that no more machines run into the same failure.
 */
import { expect } from 'vitest';
import { defaultBrakePolicy } from '../../../src/lifecycle/brake/brake.ts';
import { allocate } from '../../support/allocations.ts';
import { allocationOf, localPool, waitForAllocation } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders } from '../support/scenario.ts';

const provision_seconds = 2;
/** Enough for a mass failure in a pool without other machines. */
const machineCount = defaultBrakePolicy.min_nodes;

const readWaitReason = async (context: ScenarioContext, id: string) => {
  const { status, progress } = await allocationOf(context, id);
  return { status, message: progress?.message ?? '' };
};

scenario({
  name: 'machines that all fail to come up',
  async story(context) {
    await localPool(context, 'broken-image', { budgets: { provision_seconds }, spec: { setup: 'sleep 600' } });
    await localPool(context, 'sound');
    const failingIds = await Promise.all(
      Array.from({ length: machineCount }, () => allocate(context.client, 'broken-image')),
    );
    for (const id of failingIds) {
      const failed = await waitForAllocation(context, id, 'failed');
      expect(failed.reason, 'a failure at a deadline is written, because a late machine can be rescued').toContain(
        'timed out',
      );
    }
    const hold = await context.waitFor('launches to be paused', async () => {
      const { holds } = await context.client.call('brake-get', {});
      return holds.find(({ effect, ended_at }) => effect === 'pause-launches' && ended_at === null);
    });
    expect(hold).toMatchObject({
      rule: 'provision-deadline',
      scope: 'pool',
      name: 'broken-image',
      negative: machineCount,
    });

    const waitingId = await allocate(context.client, 'broken-image');
    await context.waitFor('the allocation to report the hold', async () =>
      (await readWaitReason(context, waitingId)).message.includes(hold.reason),
    );
    await context.expectNever('the allocation was launched during the hold', provision_seconds, async () => {
      return (await readWaitReason(context, waitingId)).status !== 'requested';
    });
    await waitForAllocation(context, await allocate(context.client, 'sound'), 'active');

    await context.client.call('brake-resume', { body: { hold_id: hold.hold_id, reason: 'the image is fixed' } });
    await waitForAllocation(context, waitingId, 'provisioning', 'failed');
    expect((await allocationOf(context, waitingId)).node_id).not.toBeNull();
  },
  counterTests: [
    {
      broken: 'no brake',
      composition: withDeciders(() => ({ decideBrake: () => ({ allow: 'all' }) })),
      fails: /waited .* for launches to be paused/,
    },
  ],
});
