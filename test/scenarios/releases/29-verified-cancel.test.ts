/**
 * A release before the machine is used. The launch is aborted, its resources are deleted and proven
 * gone, and the machine cannot register later.
 */
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { newKeyPair, publicKeyOf } from '../../../src/agent/connection/keys.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import type * as fencing from '../../../src/operations/release/fence.ts';
import type * as instances from '../../../src/store/agents/instances.ts';
import { callRoute } from '../../api/support/calls.ts';
import { allocate, release } from '../../support/allocations.ts';
import { findTaggedProcesses, killTagged } from '../../support/tagged-processes.ts';
import { allocationOf, localPool, waitForAllocation } from '../support/machines.ts';
import { type CounterTest, type ScenarioContext, scenario, whileBroken, withDeciders } from '../support/scenario.ts';
import { type SlowUpstream, slowUpstream } from '../support/slow-upstream.ts';

interface Parts {
  abortIfUnregistered: typeof fencing.abortIfUnregistered;
  fenceInstance: typeof instances.fenceInstance;
}
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/operations/release/fence.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    abortIfUnregistered: (...args) => (brokenParts.abortIfUnregistered ?? originalModule.abortIfUnregistered)(...args),
  };
});
vi.mock(import('../../../src/store/agents/instances.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    fenceInstance: (...args) => (brokenParts.fenceInstance ?? originalModule.fenceInstance)(...args),
  };
});

/** Registers a cancelled machine, which must be refused as fenced. */
async function expectLateRegistrationFenced(context: ScenarioContext, enrollment_token: string): Promise<void> {
  const body = { enrollment_token, version: 'late/1', agent_public_key: publicKeyOf(newKeyPair()) };
  const answer = await callRoute(context.server.url, 'agent-register', { body });
  if (answer.body.code !== 'instance_fenced')
    throw new Error(`a cancelled machine that registers late is answered ${answer.status} ${answer.text}`);
}

const waitForFact = (context: ScenarioContext, id: string, kind: string) =>
  context.waitFor(`${kind} on the timeline`, async () => {
    const { items } = await context.client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
    return items.some((fact) => fact.kind === kind) || undefined;
  });

let upstream: SlowUpstream;
const withSlowUpstream = {
  drivers: (built: Map<string, SlowUpstream['driver']>) => {
    upstream = slowUpstream();
    return new Map([...built, ['simulated', upstream.driver]]);
  },
};

const waitForMessage = (context: ScenarioContext, id: string, message: string) =>
  context.waitFor(`the progress message ${message}`, async () =>
    (await allocationOf(context, id)).progress?.message.includes(message),
  );

const acceptsAnyToken: CounterTest = {
  broken: 'instances that are not fenced, and a server that accepts any token',
  composition: withDeciders(() => ({ effectOfRegistration: () => 'count' })),
  around: whileBroken<Parts>(brokenParts, { fenceInstance: async () => {} }),
  fails: /a cancelled machine that registers late is answered 20/,
};

/** A driver that ends nothing and reports absence without checking. */
const fakesTeardown = (driver: Driver): Driver => {
  const done = async () => ({ outcome: 'done' as const, message: 'not ended' });
  const prove: Driver['prove'] = async (_, { kind, nonce }) => ({
    outcome: 'done',
    proof: { kind, nonce, checked: [] },
  });
  return { ...driver, stop: done, abort: done, clean: done, destroy: done, prove };
};

scenario({
  name: 'a release while the provider creates the machine',
  settings: withSlowUpstream,
  async story(context) {
    await context.client.call('pool-put', {
      params: { pool: 'slow' },
      body: { driver: 'simulated', release: { step_tries: 1, retry_base_seconds: 3600 } },
    });
    upstream.completesAborts = false;
    const id = await allocate(context.client, 'slow');
    await waitForMessage(context, id, 'Creating');
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(context.client, id);
    await context.waitFor('the abort to be requested', () => upstream.calls.includes('abort requested') || undefined);
    // The machine is already refused as fenced while the provider still aborts its creation.
    await expectLateRegistrationFenced(context, token);
    expect((await allocationOf(context, id)).status, 'the status before the abort is confirmed').toBe('releasing');
    upstream.completesAborts = true;
    const released = await waitForAllocation(context, id, 'released');
    expect(upstream.calls).toEqual(['creating', 'abort requested', 'abort observed', 'deleted', 'proven absent']);
    await waitForFact(context, id, 'proof.absent');
    await expectLateRegistrationFenced(context, token);
    const node = await context.client.call('node-get', { params: { id: released.node_id ?? '' } });
    expect(node).toMatchObject({ status: 'retired', occupancy: 'free' });
    expect(
      (await context.db.countEvidence(id, 'allocation.active')) + (await context.db.countEvidence(id, 'node.starting')),
    ).toBe(0);
  },
  counterTests: [
    {
      broken: 'a release that aborts nothing',
      around: whileBroken<Parts>(brokenParts, { abortIfUnregistered: async () => {} }),
      fails: /waited \d+ s for the abort to be requested/,
    },
    acceptsAnyToken,
  ],
});

scenario({
  name: 'a release before anything was launched',
  settings: withSlowUpstream,
  async story(context) {
    await context.client.call('pool-put', { params: { pool: 'slow' }, body: { driver: 'simulated', max_nodes: 1 } });
    upstream.hasRoom = false;
    const first = await allocate(context.client, 'slow');
    await waitForMessage(context, first, 'in the queue');
    const second = await allocate(context.client, 'slow');
    await waitForMessage(context, second, 'room in the pool');
    expect((await allocationOf(context, second)).status).toBe('requested');

    await release(context.client, second);
    expect(await waitForAllocation(context, second, 'released')).toMatchObject({
      node_id: null,
      reason: 'the allocation never had a machine',
    });
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(context.client, first);
    await waitForAllocation(context, first, 'released');
    expect(upstream.calls).toEqual(['proven absent']);
    await waitForFact(context, first, 'proof.absent');
    await expectLateRegistrationFenced(context, token);
  },
  counterTests: [acceptsAnyToken],
});

scenario({
  name: 'a release of real processes during set-up and start',
  async story(context) {
    const { client, db, server } = context;
    const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
    try {
      await localPool(context, 'unborn', {
        spec: { setup: `while [ ! -e ${join(files, 'born')} ]; do sleep 0.1; done` },
      });
      // The command exits repeatedly, so this machine never becomes ready.
      await localPool(context, 'starting', { spec: { command: ['false'] } });
      const ids = [await allocate(client, 'unborn'), await allocate(client, 'starting')];
      const expectedStatus: Record<string, string> = { unborn: 'provisioning', starting: 'starting' };
      const tokens = await context.waitFor('one machine in set-up and one starting', async () => {
        const { items } = await client.call('node-list', { query: {} });
        const startedNodes = items.filter((node) => node.status === expectedStatus[node.pool]);
        const configs = startedNodes.map((node) => join(server.nodes_dir, node.node_instance_id ?? '', 'agent.json'));
        if (startedNodes.length < ids.length || !configs.every(existsSync)) return undefined;
        const agentProcesses = findTaggedProcesses(db.installation_id).filter(({ agent }) => agent);
        if (agentProcesses.length < ids.length) return undefined;
        return Promise.all(
          configs.map(async (path) => String(JSON.parse(await readFile(path, 'utf8')).enrollment_token)),
        );
      });
      for (const id of ids) await release(client, id);
      for (const id of ids) {
        await waitForAllocation(context, id, 'released');
        await waitForFact(context, id, 'proof.absent');
        expect(await db.countEvidence(id, 'allocation.active')).toBe(0);
      }
      expect(findTaggedProcesses(db.installation_id), 'remaining processes').toEqual([]);
      expect(existsSync(server.nodes_dir) ? readdirSync(server.nodes_dir) : [], 'remaining directories').toEqual([]);
      for (const token of tokens) await expectLateRegistrationFenced(context, token);
    } finally {
      killTagged(db.installation_id);
      await rm(files, { recursive: true, force: true });
    }
  },
  counterTests: [
    {
      broken: 'a driver that ends nothing and reports absence without checking',
      composition: {
        drivers: (built) =>
          new Map([...built].map(([name, driver]) => [name, name === 'local' ? fakesTeardown(driver) : driver])),
      },
      fails: /remaining processes/,
    },
  ],
});
