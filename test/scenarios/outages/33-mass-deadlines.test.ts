/**
 * Many machines fail to come up at once: their verdicts are written, and no more are launched into
 * the same failure.
 */
import { expect } from 'vitest';
import { defaultBrakePolicy } from '../../../src/lifecycle/brake/brake.ts';
import { allocate } from '../../support/allocations.ts';
import { allocationOf, localPool, waitForAllocation } from '../support/machines.ts';
import { scenario, type World, withDeciders } from '../support/scenario.ts';

const provision_seconds = 2;
/** Enough for a mass failure in a pool without other machines. */
const many = defaultBrakePolicy.min_nodes;

const waitReason = async (world: World, id: string) => {
  const { status, progress } = await allocationOf(world, id);
  return { status, message: progress?.message ?? '' };
};

scenario({
  name: 'machines that all fail to come up',
  async story(world) {
    await localPool(world, 'broken-image', { budgets: { provision_seconds }, spec: { setup: 'sleep 600' } });
    await localPool(world, 'sound');
    const doomed = await Promise.all(Array.from({ length: many }, () => allocate(world.client, 'broken-image')));
    for (const id of doomed) {
      const failed = await waitForAllocation(world, id, 'failed');
      expect(failed.reason, 'deadline failures are written, since they can be undone').toContain('timed out');
    }
    const hold = await world.waitFor('launches to be paused', async () => {
      const { holds } = await world.client.call('brake-get', {});
      return holds.find(({ effect, ended_at }) => effect === 'pause-launches' && ended_at === null);
    });
    expect(hold).toMatchObject({ rule: 'provision-deadline', scope: 'pool', name: 'broken-image', negative: many });

    const waiting = await allocate(world.client, 'broken-image');
    await world.waitFor('the allocation to say what it waits for', async () =>
      (await waitReason(world, waiting)).message.includes(hold.reason),
    );
    await world.expectNever('it was launched all the same', provision_seconds, async () => {
      return (await waitReason(world, waiting)).status !== 'requested';
    });
    await waitForAllocation(world, await allocate(world.client, 'sound'), 'active');

    await world.client.call('brake-resume', { body: { hold_id: hold.hold_id, reason: 'the image is mended' } });
    await waitForAllocation(world, waiting, 'provisioning', 'failed');
    expect((await allocationOf(world, waiting)).node_id).not.toBeNull();
  },
  counters: [
    {
      broken: 'no brake',
      composition: withDeciders(() => ({ decideBrake: () => ({ allow: 'all' }) })),
      fails: /waited .* for launches to be paused/,
    },
  ],
});
