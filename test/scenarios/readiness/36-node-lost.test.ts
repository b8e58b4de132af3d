/**
 * An allocation with a silent machine stays active and shows the reason. It fails, with a
 * reason, when the machine misses its deadline to return or is gone at its provider.
 */
import { expect } from 'vitest';
import type { Allocation } from '../../../src/contract/allocation.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { beatingFleet } from '../support/fleet.ts';
import { allocationOf, externalPool, nodeOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
const beatEvery = 0.3;
/** A machine returns to service no sooner than one stale time after it went offline. */
const offline_seconds = 3 * heartbeat.stale_after_seconds;
const patience_seconds = offline_seconds + heartbeat.stale_after_seconds;

async function allocateActive(context: ScenarioContext, pool: string): Promise<Allocation> {
  const { allocation } = await context.client.call('allocation-create', { body: { pool } });
  return waitForAllocation(context, allocation.allocation_id, 'active');
}

async function expectLost(context: ScenarioContext, { allocation_id }: Allocation, because: string): Promise<void> {
  const lostAllocation = await waitForAllocation(context, allocation_id, 'failed');
  expect(lostAllocation.verdict).toMatchObject({ rule: 'node-lost' });
  expect(lostAllocation.owner_layer).toBe('node');
  expect(lostAllocation.reason).toContain(because);
  const node = await nodeOf(context, lostAllocation.node_id ?? '');
  expect(node).toMatchObject({ status: 'failed', verdict: { rule: 'offline-deadline' } });
  const changes = await context.waitFor('the changes on the timeline', async () => {
    const query = { allocation_id, order: 'oldest', limit: 500 } as const;
    const { items } = await context.client.call('timeline-get', { query });
    const kinds = items.flatMap((fact) => (fact.kind.startsWith('allocation.') ? [fact.kind] : []));
    return kinds.includes('allocation.failed') ? kinds : undefined;
  });
  expect(changes.slice(-2)).toEqual(['allocation.told', 'allocation.failed']);
}

scenario({
  name: 'a machine that goes silent, returns, and is lost',
  async story(context) {
    await externalPool(context, 'fleet', { heartbeat, budgets: { offline_seconds } });
    const fleet = await beatingFleet(context, 'fleet', 1, beatEvery);
    try {
      const allocation = await allocateActive(context, 'fleet');
      const { allocation_id: id, node_id } = allocation;
      fleet.silence(fleet.machines);
      await waitForNode(context, node_id ?? '', 'offline');
      const silentAllocation = await allocationOf(context, id);
      expect(silentAllocation).toMatchObject({ status: 'active', active_at: allocation.active_at });
      expect(silentAllocation.reason).toMatch(/^its machine is offline: no heartbeat arrived for .* s/);

      fleet.resume(fleet.machines);
      await waitForNode(context, node_id ?? '', 'ready');
      expect(await allocationOf(context, id)).toMatchObject({ status: 'active', reason: 'its machine is back' });

      fleet.silence(fleet.machines);
      await waitForNode(context, node_id ?? '', 'offline');
      await expectLost(context, allocation, 'it went offline and did not come back in time');
    } finally {
      await fleet.end();
    }
  },
  counterTests: [
    { broken: 'no liveness rule', composition: withoutSweep('liveness'), fails: /waited .* for node to be offline/ },
    {
      broken: 'no offline-deadline rule',
      composition: withoutSweep('offline-deadline'),
      fails: /waited .* for allocation to be failed/,
      patience_seconds,
    },
  ],
});

/** Longer than the test, so that only the missing machine at the provider ends the allocation. */
const longSeconds = 3600;

scenario({
  name: 'a local machine whose agent is killed',
  async story(context) {
    await context.client.call('pool-put', {
      params: { pool: 'own' },
      body: { driver: 'local', heartbeat, budgets: { offline_seconds: longSeconds } },
    });
    const allocation = await allocateActive(context, 'own');
    const [agent] = findTaggedProcesses(context.db.installation_id).filter((each) => each.agent);
    if (!agent) throw new Error('the machine runs no agent');
    process.kill(agent.pid, 'SIGKILL');
    await context.waitFor('the machine to go offline, or the allocation to fail', async () => {
      const { status, node_id } = await allocationOf(context, allocation.allocation_id);
      return status === 'failed' || (await nodeOf(context, node_id ?? '')).status === 'offline';
    });
    await expectLost(context, allocation, 'it fell silent, and its machine is gone');
  },
  counterTests: [
    {
      broken: 'no inspection at the provider',
      composition: withoutSweep('absence'),
      fails: /waited .* for allocation to be failed/,
      patience_seconds,
    },
    {
      broken: 'no offline-deadline rule',
      composition: withoutSweep('offline-deadline'),
      fails: /waited .* for allocation to be failed/,
      patience_seconds,
    },
  ],
});
