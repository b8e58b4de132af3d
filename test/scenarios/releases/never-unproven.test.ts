/**
 * No operator action makes a machine serve a tenant before it is proven clean, and no rule takes
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
import { type ScenarioContext, scenario } from '../support/scenario.ts';

const reason = 'to see';

const act = (context: ScenarioContext, id: string, action: NodeActionName) =>
  context.client.call('node-act', { params: { id, action }, body: { reason } });

const readRefusal = async (context: ScenarioContext, id: string, action: NodeActionName) => {
  const { items } = await context.client.call('node-actions', { params: { id } });
  return items.find((each) => each.action === action)?.why_not ?? 'offered';
};

/** Allocates a machine, releases it and returns its node, which is proven clean. */
async function freeMachine(context: ScenarioContext, pool: string): Promise<string> {
  const id = await allocate(context.client, pool);
  const { node_id } = await waitForAllocation(context, id, 'active');
  await context.client.call('allocation-release', { params: { id } });
  await waitForAllocation(context, id, 'released');
  return node_id ?? '';
}

const waitForEnd = (context: ScenarioContext, workflow_id: string) =>
  context.waitFor('the operation to end', async () => {
    const { status } = await context.client.call('operation-get', { params: { id: workflow_id } });
    return ['succeeded', 'failed', 'cancelled'].includes(status) ? status : undefined;
  });

scenario({
  name: 'a quarantined machine on which an allocation failed',
  async story(context) {
    const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };
    await externalPool(context, 'dock', {
      heartbeat,
      reuse: true,
      budgets: { offline_seconds: 0.5, rescue_seconds: 600 },
    });
    const machine = await joinMachine(context, 'dock', 'pier');
    const heartbeats = keepBeating(machine, 0.3, 'ready');
    const { node_id } = machine;
    await waitForNode(context, node_id, 'ready');
    const id = await allocate(context.client, 'dock');
    await waitForAllocation(context, id, 'active');
    await heartbeats.stop();
    await machine.beat('stopping');
    await waitForAllocation(context, id, 'failed');
    await act(context, node_id, 'quarantine');
    expect((await nodeOf(context, node_id)).occupancy, 'the occupancy of an uncleaned machine').toBe('cleanup');
    expect(await readRefusal(context, node_id, 'reactivate')).toMatch(/not proven gone: release that/);
    expect(await readRefusal(context, node_id, 're-enroll')).toMatch(/not proven gone: release that/);
    expect(await readRefusal(context, node_id, 'retire')).toBe('offered');
  },
  counterTests: [
    {
      broken: 'an allocation that no longer counts as used',
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
      fails: /the occupancy of an uncleaned machine|not proven gone/,
    },
  ],
});

scenario({
  name: 'a quarantined machine on which an allocation failed and was retried elsewhere',
  async story(context) {
    await externalPool(context, 'pier', {
      heartbeat: { interval_seconds: 0.5, stale_after_seconds: 30 },
      reuse: true,
      budgets: { offline_seconds: 0.5, rescue_seconds: 600 },
    });
    const machine = await joinMachine(context, 'pier', 'first');
    const heartbeats = keepBeating(machine, 0.3, 'ready');
    const { node_id } = machine;
    await waitForNode(context, node_id, 'ready');
    const id = await allocate(context.client, 'pier');
    await waitForAllocation(context, id, 'active');
    await heartbeats.stop();
    await machine.beat('stopping');
    await waitForAllocation(context, id, 'failed');
    await act(context, node_id, 'quarantine');
    const otherHeartbeats = keepBeating(await joinMachine(context, 'pier', 'second'), 0.3, 'ready');
    try {
      await context.client.call('allocation-retry', { params: { id }, body: { reason } });
      expect((await waitForAllocation(context, id, 'active')).node_id).not.toBe(node_id);
      expect((await nodeOf(context, node_id)).occupancy, 'the occupancy of an uncleaned machine').toBe('cleanup');
      expect(await readRefusal(context, node_id, 'reactivate')).toMatch(/not proven gone/);
      expect(await readRefusal(context, node_id, 're-enroll')).toMatch(/not proven gone/);
      expect(await readRefusal(context, node_id, 'retire')).toBe('offered');
    } finally {
      await otherHeartbeats.stop();
    }
  },
  counterTests: [
    {
      broken: 'a machine without the mark of its former tenant',
      composition: forgetsUnproven,
      fails: /the occupancy of an uncleaned machine|not proven gone/,
    },
  ],
});

scenario({
  name: 'a machine that is quarantined while it is taken down',
  async story(context) {
    const busyFile = join(context.server.data_dir, 'busy');
    const clean = `while test -e ${busyFile}; do sleep 0.1; done`;
    await localPool(context, 'yard', {
      reuse: true,
      spec: { clean },
      release: { step_tries: 1, retry_base_seconds: 1 },
    });
    const node_id = await freeMachine(context, 'yard');
    await writeFile(busyFile, '');
    const imaging = await act(context, node_id, 'reimage');
    const workflow_id = imaging.operation?.workflow_id ?? '';
    await context.waitFor('the clean step to run', async () => {
      const { progress } = await context.client.call('operation-get', { params: { id: workflow_id } });
      return progress.phase === 'clean';
    });
    await act(context, node_id, 'quarantine');
    // The clean step still blocks, so the operation ends only because it was cancelled.
    expect(await waitForEnd(context, workflow_id)).toBe('cancelled');
    await rm(busyFile);
    const proofs = "select kind from evidence where workflow_id = $1 and kind like 'proof.%'";
    expect(await context.db.query(proofs, [workflow_id]), 'proofs of a teardown after the quarantine').toEqual([]);
    expect(await nodeOf(context, node_id), 'the node after the quarantine').toMatchObject({
      status: 'quarantined',
      node_instance_id: imaging.node.node_instance_id,
    });
  },
  counterTests: [],
});

const findAgentPid = async ({ db }: ScenarioContext, node_id: string): Promise<number> => {
  const { node_instance_id } = (
    await db.query<{ node_instance_id: string }>('select node_instance_id from nodes where node_id = $1', [node_id])
  )[0] ?? { node_instance_id: '' };
  const agent = findTaggedProcesses(db.installation_id).find(
    (each) => each.agent && each.node_instance_id === node_instance_id,
  );
  return agent?.pid ?? 0;
};

const waitForTask = (context: ScenarioContext, node_id: string, type: string) =>
  context.waitFor(`${type} to be queued`, async () => {
    const rows = await context.db.query('select 1 from tasks where node_id = $1 and type = $2', [node_id, type]);
    return rows.length > 0;
  });

scenario({
  name: 'a machine that is quarantined while its allocation is released',
  async story(context) {
    await localPool(context, 'quay', { reuse: true });
    const id = await allocate(context.client, 'quay');
    const { node_id } = await waitForAllocation(context, id, 'active');
    const node = node_id ?? '';
    // The agent is stopped, so it gets the tasks of the release only after the quarantine.
    const agent = await findAgentPid(context, node);
    process.kill(agent, 'SIGSTOP');
    try {
      await context.client.call('allocation-release', { params: { id } });
      await waitForTask(context, node, 'release.freeze');
      await act(context, node, 'quarantine');
    } finally {
      process.kill(agent, 'SIGCONT');
    }
    await waitForAllocation(context, id, 'released');
    expect(await context.db.countEvidence(id, 'proof.clean'), 'proofs that the machine is clean').toBe(1);
    expect((await nodeOf(context, node)).status, 'the status after the release').toBe('quarantined');
    expect(await findAgentPid(context, node), 'the pid of the agent').toBe(agent);
    expect(await readRefusal(context, node, 'reactivate')).toBe('offered');
  },
  counterTests: [],
});

scenario({
  name: 'a machine that is quarantined while its release destroys it',
  async story(context) {
    const busyFile = join(context.server.data_dir, 'washing');
    const clean = `while test -e ${busyFile}; do sleep 0.1; done`;
    await localPool(context, 'berth', { max_nodes: 1, spec: { clean } });
    const id = await allocate(context.client, 'berth');
    const { node_id } = await waitForAllocation(context, id, 'active');
    const node = node_id ?? '';
    await writeFile(busyFile, '');
    await context.client.call('allocation-release', { params: { id } });
    await waitForNode(context, node, 'cleaning');
    await act(context, node, 'quarantine');
    await rm(busyFile);
    await waitForAllocation(context, id, 'released');
    expect(await context.db.countEvidence(id, 'proof.absent'), 'proofs that the machine is gone').toBe(1);
    expect((await nodeOf(context, node)).status, 'the status after the release').toBe('retired');
    // The only place of the pool is free again.
    await waitForAllocation(context, await allocate(context.client, 'berth'), 'active');
  },
  counterTests: [],
});

scenario({
  name: 'a release that is forced while it begins',
  async story(context) {
    const busyFile = join(context.server.data_dir, 'held');
    const clean = `while test -e ${busyFile}; do sleep 0.1; done`;
    await localPool(context, 'lock', { reuse: true, spec: { clean } });
    const id = await allocate(context.client, 'lock');
    await waitForAllocation(context, id, 'active');
    await writeFile(busyFile, '');
    const forcedReplies = Promise.all([
      context.client.call('allocation-release', { params: { id } }),
      context.client
        .call('allocation-act', { params: { id, action: 'force-release' }, body: { reason } })
        .catch(() => undefined),
    ]);
    const [, answer] = await forcedReplies;
    const repeatedReply =
      answer ??
      (await context.client.call('allocation-act', { params: { id, action: 'force-release' }, body: { reason } }));
    await rm(busyFile);
    expect(
      await waitForEnd(context, repeatedReply.operation?.workflow_id ?? ''),
      'the end of the acknowledged operation',
    ).toBe('succeeded');
    await waitForAllocation(context, id, 'released');
    expect(await context.db.countEvidence(id, 'allocation.release_failed'), 'failed tries of the release').toBe(0);
  },
  counterTests: [],
});

scenario({
  name: 'a machine that is quarantined while its release takes it down',
  async story(context) {
    const busyFile = join(context.server.data_dir, 'still-there');
    const clean = `while test -e ${busyFile}; do sleep 0.1; done`;
    await localPool(context, 'ramp', { max_nodes: 1, spec: { clean } });
    const id = await allocate(context.client, 'ramp');
    const { node_id } = await waitForAllocation(context, id, 'active');
    const node = node_id ?? '';
    await writeFile(busyFile, '');
    await context.client.call('allocation-release', { params: { id } });
    await waitForNode(context, node, 'cleaning');
    await act(context, node, 'quarantine');
    await rm(busyFile);
    await waitForAllocation(context, id, 'released');
    expect((await nodeOf(context, node)).status, 'the status of the machine').toBe('retired');
    await waitForAllocation(context, await allocate(context.client, 'ramp'), 'active');
  },
  counterTests: [],
});
