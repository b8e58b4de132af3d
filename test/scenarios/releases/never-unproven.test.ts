/**
 * Whatever an operator does, a machine serves no one before it is proven clean, and no rule takes
 * down a quarantined machine.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import { allocate } from '../../support/allocations.ts';
import { findTaggedProcesses } from '../../support/tagged-processes.ts';
import { forgetsUnproven } from '../support/broken-servers.ts';
import {
  externalPool,
  joinMachine,
  keepBeating,
  localPool,
  nodeOf,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { scenario, type World } from '../support/scenario.ts';

const reason = 'to see';

const act = (world: World, id: string, action: NodeActionName) =>
  world.client.call('node-act', { params: { id, action }, body: { reason } });

const whyNot = async (world: World, id: string, action: NodeActionName) => {
  const { items } = await world.client.call('node-actions', { params: { id } });
  return items.find((each) => each.action === action)?.why_not ?? 'open';
};

/** Used once, released, and proven clean. */
async function freeMachine(world: World, pool: string): Promise<string> {
  const id = await allocate(world.client, pool);
  const { node_id } = await waitForAllocation(world, id, 'active');
  await world.client.call('allocation-release', { params: { id } });
  await waitForAllocation(world, id, 'released');
  return node_id ?? '';
}

const endOf = (world: World, workflow_id: string) =>
  world.waitFor('the operation to end', async () => {
    const { status } = await world.client.call('operation-get', { params: { id: workflow_id } });
    return ['succeeded', 'failed', 'cancelled'].includes(status) ? status : undefined;
  });

scenario({
  name: 'a quarantined machine on which an allocation failed',
  async story(world) {
    const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };
    await externalPool(world, 'dock', {
      heartbeat,
      reuse: true,
      budgets: { offline_seconds: 0.5, rescue_seconds: 600 },
    });
    const machine = await joinMachine(world, 'dock', 'pier');
    const life = keepBeating(machine, 0.3, 'ready');
    const { node_id } = machine;
    await waitForNode(world, node_id, 'ready');
    const id = await allocate(world.client, 'dock');
    await waitForAllocation(world, id, 'active');
    await life.stop();
    await machine.beat('stopping');
    await waitForAllocation(world, id, 'failed');
    await act(world, node_id, 'quarantine');
    expect((await nodeOf(world, node_id)).occupancy, 'it was never cleaned').toBe('cleanup');
    expect(await whyNot(world, node_id, 'reactivate')).toMatch(/not proven gone: release that/);
    expect(await whyNot(world, node_id, 're-enroll')).toMatch(/not proven gone: release that/);
    expect(await whyNot(world, node_id, 'retire')).toBe('open');
  },
  counters: [
    {
      broken: 'a forgotten allocation',
      composition: {
        sweeps: (registry, services) => [
          ...registry,
          {
            name: 'forgetful',
            every_seconds: 0.05,
            run: async () => {
              await services.db.query("update allocations set active_at = null where status = 'failed'");
              return { decided: 0 };
            },
          },
        ],
      },
      fails: /it was never cleaned|not proven gone/,
    },
  ],
});

scenario({
  name: 'a quarantined machine on which an allocation failed and was retried elsewhere',
  async story(world) {
    await externalPool(world, 'pier', {
      heartbeat: { interval_seconds: 0.5, stale_after_seconds: 30 },
      reuse: true,
      budgets: { offline_seconds: 0.5, rescue_seconds: 600 },
    });
    const machine = await joinMachine(world, 'pier', 'first');
    const life = keepBeating(machine, 0.3, 'ready');
    const { node_id } = machine;
    await waitForNode(world, node_id, 'ready');
    const id = await allocate(world.client, 'pier');
    await waitForAllocation(world, id, 'active');
    await life.stop();
    await machine.beat('stopping');
    await waitForAllocation(world, id, 'failed');
    await act(world, node_id, 'quarantine');
    const other = keepBeating(await joinMachine(world, 'pier', 'second'), 0.3, 'ready');
    try {
      await world.client.call('allocation-retry', { params: { id }, body: { reason } });
      expect((await waitForAllocation(world, id, 'active')).node_id).not.toBe(node_id);
      expect((await nodeOf(world, node_id)).occupancy, 'it was never cleaned').toBe('cleanup');
      expect(await whyNot(world, node_id, 'reactivate')).toMatch(/not proven gone/);
      expect(await whyNot(world, node_id, 're-enroll')).toMatch(/not proven gone/);
      expect(await whyNot(world, node_id, 'retire')).toBe('open');
    } finally {
      await other.stop();
    }
  },
  counters: [
    {
      broken: 'a machine that forgets its former tenant',
      composition: forgetsUnproven,
      fails: /it was never cleaned|not proven gone/,
    },
  ],
});

scenario({
  name: 'a machine that is quarantined while it is taken down',
  async story(world) {
    const busy = join(world.server.data_dir, 'busy');
    const clean = `while test -e ${busy}; do sleep 0.1; done`;
    await localPool(world, 'yard', { reuse: true, spec: { clean }, release: { step_tries: 1, retry_base_seconds: 1 } });
    const node_id = await freeMachine(world, 'yard');
    await writeFile(busy, '');
    const imaging = await act(world, node_id, 'reimage');
    const workflow_id = imaging.operation?.workflow_id ?? '';
    await world.waitFor('it to be cleaned', async () => {
      const { progress } = await world.client.call('operation-get', { params: { id: workflow_id } });
      return progress.phase === 'clean';
    });
    await act(world, node_id, 'quarantine');
    // Its clean-up has not ended, so it ends only because of the cancellation.
    expect(await endOf(world, workflow_id)).toBe('cancelled');
    await rm(busy);
    const proofs = "select kind from evidence where workflow_id = $1 and kind like 'proof.%'";
    expect(await world.ledger.rows(proofs, [workflow_id]), 'it was not taken down behind their back').toEqual([]);
    expect(await nodeOf(world, node_id), 'nothing moved it from where a person put it').toMatchObject({
      status: 'quarantined',
      node_instance_id: imaging.node.node_instance_id,
    });
  },
  counters: [],
});

const agentPidOf = async ({ ledger }: World, node_id: string): Promise<number> => {
  const { node_instance_id } = (
    await ledger.rows<{ node_instance_id: string }>('select node_instance_id from nodes where node_id = $1', [node_id])
  )[0] ?? { node_instance_id: '' };
  const agent = findTaggedProcesses(ledger.installation_id).find(
    (each) => each.agent && each.node_instance_id === node_instance_id,
  );
  return agent?.pid ?? 0;
};

const queuedFor = (world: World, node_id: string, type: string) =>
  world.waitFor(`${type} to be queued`, async () => {
    const rows = await world.ledger.rows('select 1 from tasks where node_id = $1 and type = $2', [node_id, type]);
    return rows.length > 0;
  });

scenario({
  name: 'a machine that is quarantined while its allocation is released',
  async story(world) {
    await localPool(world, 'quay', { reuse: true });
    const id = await allocate(world.client, 'quay');
    const { node_id } = await waitForAllocation(world, id, 'active');
    const node = node_id ?? '';
    // The agent is stopped, so it learns of its release only after the quarantine.
    const agent = await agentPidOf(world, node);
    process.kill(agent, 'SIGSTOP');
    try {
      await world.client.call('allocation-release', { params: { id } });
      await queuedFor(world, node, 'release.freeze');
      await act(world, node, 'quarantine');
    } finally {
      process.kill(agent, 'SIGCONT');
    }
    await waitForAllocation(world, id, 'released');
    expect(await world.ledger.facts(id, 'proof.clean'), 'it was proven clean').toBe(1);
    expect((await nodeOf(world, node)).status, 'it stays where it was put').toBe('quarantined');
    expect(await agentPidOf(world, node), 'nobody ended its agent').toBe(agent);
    expect(await whyNot(world, node, 'reactivate')).toBe('open');
  },
  counters: [],
});

scenario({
  name: 'a release that is forced at the moment it begins',
  async story(world) {
    const busy = join(world.server.data_dir, 'held');
    const clean = `while test -e ${busy}; do sleep 0.1; done`;
    await localPool(world, 'lock', { reuse: true, spec: { clean } });
    const id = await allocate(world.client, 'lock');
    await waitForAllocation(world, id, 'active');
    await writeFile(busy, '');
    const forced = Promise.all([
      world.client.call('allocation-release', { params: { id } }),
      world.client
        .call('allocation-act', { params: { id, action: 'force-release' }, body: { reason } })
        .catch(() => undefined),
    ]);
    const [, answer] = await forced;
    const again =
      answer ??
      (await world.client.call('allocation-act', { params: { id, action: 'force-release' }, body: { reason } }));
    await rm(busy);
    expect(await endOf(world, again.operation?.workflow_id ?? ''), 'what was acknowledged is done').toBe('succeeded');
    await waitForAllocation(world, id, 'released');
    expect(await world.ledger.facts(id, 'allocation.release_failed'), 'nothing failed on the way').toBe(0);
  },
  counters: [],
});

scenario({
  name: 'a machine that is quarantined while its release takes it down',
  async story(world) {
    const busy = join(world.server.data_dir, 'still-there');
    const clean = `while test -e ${busy}; do sleep 0.1; done`;
    await localPool(world, 'ramp', { max_nodes: 1, spec: { clean } });
    const id = await allocate(world.client, 'ramp');
    const { node_id } = await waitForAllocation(world, id, 'active');
    const node = node_id ?? '';
    await writeFile(busy, '');
    await world.client.call('allocation-release', { params: { id } });
    await waitForNode(world, node, 'cleaning');
    await act(world, node, 'quarantine');
    await rm(busy);
    await waitForAllocation(world, id, 'released');
    expect((await nodeOf(world, node)).status, 'its machine is gone').toBe('retired');
    await waitForAllocation(world, await allocate(world.client, 'ramp'), 'active');
  },
  counters: [],
});
