/**
 * Operators drain, quarantine, reactivate and retire machines. Each action takes a reason and has a
 * preview, and none needs a database edit.
 */
import { expect } from 'vitest';
import type { NodeActionName } from '../../../src/lifecycle/actions/actions.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import {
  allocationOf,
  causesOf,
  externalPool,
  joinMachine,
  keepBeating,
  nodeOf,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };
const beatEvery = 0.3;

interface ActOptions {
  drain_then?: 'hold' | 'retire';
  dry_run?: boolean;
}

const act = (context: ScenarioContext, id: string, action: NodeActionName, reason: string, options: ActOptions = {}) =>
  context.client.call('node-act', { params: { id, action }, body: { reason, ...options } });

const expectRefused = async (context: ScenarioContext, id: string, action: NodeActionName, why: RegExp) => {
  const answer = await callRoute(
    context.server.url,
    'node-act',
    { params: { id, action }, body: { reason: 'try' } },
    { bearer: context.server.token },
  );
  expectProblem(answer, 'action_illegal');
  expect((answer.body as { detail: string }).detail).toMatch(why);
};

async function readyMachine(context: ScenarioContext, name: string) {
  const machine = await joinMachine(context, 'dock', name);
  const heartbeats = keepBeating(machine, beatEvery, 'ready');
  await waitForNode(context, machine.node_id, 'ready');
  return { ...machine, heartbeats };
}

scenario({
  name: 'a machine that is drained, quarantined, reactivated and retired',
  async story(context) {
    await externalPool(context, 'dock', { heartbeat, reuse: true });
    const machine = await readyMachine(context, 'pier-1');
    const id = machine.node_id;
    try {
      const prediction = await act(context, id, 'drain', 'its disk is worn', { dry_run: true });
      expect(prediction).toMatchObject({ dry_run: true, node: { status: 'ready' }, predicts: { status: 'draining' } });
      expect((await nodeOf(context, id)).status, 'a dry run changes nothing').toBe('ready');

      await act(context, id, 'drain', 'its disk is worn');
      const quarantinedNode = await waitForNode(context, id, 'quarantined');
      expect(quarantinedNode.fenced).toBe(true);
      await expectRefused(context, id, 'drain', /It is quarantined; this needs ready, degraded, offline/);

      const back = await act(context, id, 'reactivate', 'the disk was replaced');
      expect(back.predicts.status).toBe('starting');
      await waitForNode(context, id, 'ready');
      expect(await causesOf(context, id)).toEqual([
        'join',
        'registration',
        'claim-ready',
        'drain',
        'drained',
        'reactivate',
        'claim-ready',
      ]);

      await act(context, id, 'drain', 'the pier is closed', { drain_then: 'retire' });
      const retiredNode = await waitForNode(context, id, 'retired');
      expect(retiredNode.fenced).toBe(true);
      await expectRefused(context, id, 'reactivate', /It is retired/);
    } finally {
      await machine.heartbeats.stop();
    }
  },
  counterTests: [
    {
      broken: 'no check whether a drained machine is empty',
      composition: withoutSweep('drained'),
      fails: /waited .* for node to be quarantined/,
    },
  ],
});

scenario({
  name: 'a machine in use',
  async story(context) {
    await externalPool(context, 'dock', { heartbeat, reuse: true });
    const machine = await readyMachine(context, 'pier-2');
    const id = machine.node_id;
    try {
      const { allocation } = await context.client.call('allocation-create', { body: { pool: 'dock' } });
      await waitForAllocation(context, allocation.allocation_id, 'active');
      await expectRefused(context, id, 'retire', /An allocation uses it; release the allocation first/);

      await act(context, id, 'drain', 'later today');
      await context.expectNever(
        'the machine in use counted as drained',
        2 * beatEvery + 1,
        async () => (await nodeOf(context, id)).status !== 'draining',
      );
      await act(context, id, 'undrain', 'not today after all');
      await waitForNode(context, id, 'ready');

      await act(context, id, 'quarantine', 'something is odd');
      expect((await nodeOf(context, id)).status).toBe('quarantined');
      await expectRefused(
        context,
        id,
        'retire',
        /Reactivate the machine to serve it again, or release the allocation first/,
      );
      await act(context, id, 'reactivate', 'nothing was');
      await waitForNode(context, id, 'ready');
      expect(
        (await allocationOf(context, allocation.allocation_id)).status,
        'the allocation after the quarantine',
      ).toBe('active');
    } finally {
      await machine.heartbeats.stop();
    }
  },
  counterTests: [
    {
      broken: 'a machine that counts as empty while it is in use',
      composition: {
        sweeps: (registry, services) => [
          ...registry,
          {
            name: 'hasty',
            every_seconds: 0.2,
            run: async () => {
              await services.db.query("update nodes set status = 'quarantined' where status = 'draining'");
              return { decided: 0 };
            },
          },
        ],
      },
      fails: /the machine in use counted as drained, and should not/,
    },
  ],
});

scenario({
  name: 'a machine that is quarantined or drained while in use',
  async story(context) {
    await externalPool(context, 'dock', { heartbeat, reuse: true });
    const machine = await readyMachine(context, 'pier-4');
    const id = machine.node_id;
    const allocateMachine = async () => {
      const { allocation } = await context.client.call('allocation-create', { body: { pool: 'dock' } });
      return waitForAllocation(context, allocation.allocation_id, 'active');
    };
    const releaseMachine = async (allocation_id: string) => {
      await context.client.call('allocation-release', { params: { id: allocation_id }, body: {} });
      let isReleased = false;
      await machine.work(async () => {
        const { status } = await context.client.call('allocation-get', { params: { id: allocation_id } });
        isReleased = status === 'released';
        return isReleased;
      });
      return nodeOf(context, id);
    };
    try {
      const first = await allocateMachine();
      await act(context, id, 'quarantine', 'something is odd');
      expect((await releaseMachine(first.allocation_id)).status, 'the status after a release in quarantine').toBe(
        'quarantined',
      );
      await act(context, id, 'reactivate', 'nothing was');
      await waitForNode(context, id, 'ready');

      const second = await allocateMachine();
      await act(context, id, 'drain', 'its disk is worn');
      expect((await releaseMachine(second.allocation_id)).status, 'the status after a drain').toBe('quarantined');
      await act(context, id, 'reactivate', 'the disk was replaced');
      await waitForNode(context, id, 'ready');

      const third = await allocateMachine();
      await act(context, id, 'drain', 'the pier is closed', { drain_then: 'retire' });
      expect((await releaseMachine(third.allocation_id)).status, 'the status after a drain to retire').toBe('retired');
    } finally {
      await machine.heartbeats.stop();
    }
  },
  counterTests: [
    {
      broken: 'a release that overrides a quarantine',
      composition: {
        sweeps: (registry, services) => [
          ...registry,
          {
            name: 'overruling',
            every_seconds: 0.05,
            run: async () => {
              await services.db.query("update nodes set drain_then = null where status = 'cleaning'");
              return { decided: 0 };
            },
          },
        ],
      },
      fails: /the status after a (release in quarantine|drain)/,
    },
  ],
});

const readFrozenEvidence = (context: ScenarioContext, id: string) =>
  context.db.query<{ layer: string; kind: string; allocation_id: string | null; workflow_id: string }>(
    `select layer, kind, allocation_id, workflow_id
     from evidence
     where node_id = $1 and kind in ('evidence.frozen', 'evidence.missing')
     order by seq`,
    [id],
  );

scenario({
  name: 'diagnostics of a machine in use',
  async story(context) {
    await externalPool(context, 'dock', { heartbeat, reuse: true });
    const machine = await readyMachine(context, 'pier-3');
    const id = machine.node_id;
    try {
      const { allocation } = await context.client.call('allocation-create', { body: { pool: 'dock' } });
      const { allocation_id } = await waitForAllocation(context, allocation.allocation_id, 'active');

      const firstReply = await act(context, id, 'collect-diagnostics', 'it is slow today');
      const repeatedReply = await act(context, id, 'collect-diagnostics', 'it is still slow');
      expect(repeatedReply.operation?.workflow_id, 'a second request while the first runs').toBe(
        firstReply.operation?.workflow_id,
      );
      const waitForEnd = (workflow_id: string) =>
        context.waitFor('the diagnostics to be collected', async () => {
          const operation = await context.client.call('operation-get', { params: { id: workflow_id } });
          return operation.status === 'succeeded' ? operation : undefined;
        });
      await machine.work(async () => (await readFrozenEvidence(context, id)).length === 2);
      const first = await waitForEnd(firstReply.operation?.workflow_id ?? '');
      expect(first.progress.message).toBe('Diagnostics of its agent and its provider were stored');
      expect(await readFrozenEvidence(context, id)).toMatchObject([
        { layer: 'node', kind: 'evidence.frozen', allocation_id, workflow_id: first.workflow_id },
        { layer: 'provider', kind: 'evidence.frozen', allocation_id, workflow_id: first.workflow_id },
      ]);

      // The action works through the allocation too, and with an agent that does not answer.
      const through = await context.client.call('allocation-act', {
        params: { id: allocation_id, action: 'collect-diagnostics' },
        body: { reason: 'is it there?' },
      });
      expect(through.predicts.status).toBe('active');
      const second = await waitForEnd(through.operation?.workflow_id ?? '');
      expect(second.progress.message).toBe('Diagnostics of its provider were stored; its agent is silent');
      expect((await readFrozenEvidence(context, id)).slice(2)).toMatchObject([
        { layer: 'workflow', kind: 'evidence.missing', allocation_id },
        { layer: 'provider', kind: 'evidence.frozen', allocation_id },
      ]);
      expect(await nodeOf(context, id), 'the node after diagnostics').toMatchObject({ status: 'ready', allocation_id });
    } finally {
      await machine.heartbeats.stop();
    }
  },
  counterTests: [
    {
      broken: 'a provider that cannot be reached',
      composition: {
        drivers: (built) =>
          new Map(
            [...built].map(([name, driver]) => [
              name,
              { ...driver, diagnose: () => Promise.reject(new Error('the provider is unreachable')) },
            ]),
          ),
      },
      fails: /Diagnostics of its agent were s/,
    },
  ],
});
