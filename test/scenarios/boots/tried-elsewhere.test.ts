/**
 * A tenant whose machine failed retries and gets another one. The failed machine, even if it
 * returns, serves no one until it is proven clean.
 */
import { expect, vi } from 'vitest';
import type * as NodeRetire from '../../../src/operations/release/node-retire.ts';
import { allocate } from '../../support/allocations.ts';
import { forgetsUnproven } from '../support/broken-servers.ts';
import {
  allocationOf,
  causesOf,
  externalPool,
  joinMachine,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof NodeRetire, 'retireIn'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/operations/release/node-retire.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, retireIn: (...args) => (brokenParts.retireIn ?? originalModule.retireIn)(...args) };
});

const pool = 'shared';
/** The rescue window is long enough for the failed machine to return. */
const budgets = { offline_seconds: 0.5, rescue_seconds: 600 };
/** These machines leave by a goodbye. The long stale time keeps the liveness rule out. */
const heartbeat = { interval_seconds: 1, stale_after_seconds: 600 };

async function readyMachine(context: ScenarioContext, name: string) {
  const machine = await joinMachine(context, pool, name);
  await machine.beat('ready');
  await waitForNode(context, machine.node_id, 'ready');
  return machine;
}

scenario({
  name: 'a tenant that retries, and the failed machine that returns',
  async story(context) {
    await externalPool(context, pool, { budgets, heartbeat });
    const first = await readyMachine(context, 'm1');
    const acme = await allocate(context.client, pool);
    await waitForAllocation(context, acme, 'active');
    await first.beat('stopping');
    await waitForAllocation(context, acme, 'failed');

    const second = await readyMachine(context, 'm2');
    await context.client.call('allocation-retry', { params: { id: acme } });
    expect((await waitForAllocation(context, acme, 'active')).node_id).toBe(second.node_id);

    const bmart = await allocate(context.client, pool);
    await first.beat('starting');
    await first.beat('ready');
    await context.waitFor('the failed machine to be retired', async () => {
      const { node_id } = await allocationOf(context, bmart);
      expect(node_id, 'the next tenant got an unproven machine').toBeNull();
      const { status } = await context.client.call('node-get', { params: { id: first.node_id } });
      return status === 'retired';
    });
    const causes = await causesOf(context, first.node_id);
    expect(causes.slice(-3)).toEqual(['offline-deadline', 'retire', 'proof']);

    expect((await first.beat('ready')).body.code).toBe('instance_fenced');

    // The same machine may join again as a new instance; the former one is fenced.
    const rejoinedMachine = await readyMachine(context, 'm1');
    expect((await waitForAllocation(context, bmart, 'active')).node_id).toBe(rejoinedMachine.node_id);
  },
  counterTests: [
    {
      broken: 'a retry that does not retire the failed machine',
      around: whileBroken<Parts>(brokenParts, { retireIn: async () => undefined }),
      // Otherwise the mark `unproven_since` would also keep the machine from the next tenant.
      composition: forgetsUnproven,
      fails: /the next tenant got an unproven machine/,
    },
  ],
});
