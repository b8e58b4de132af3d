/**
 * A release before use: whatever was started is aborted, seen to have ended, deleted, and proven
 * gone; and it cannot come back.
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
import { type Counter, scenario, type World, whileBroken, withDeciders } from '../support/scenario.ts';
import { type SlowUpstream, slowUpstream } from '../support/slow-upstream.ts';

interface Parts {
  abortIfUnregistered: typeof fencing.abortIfUnregistered;
  fenceInstance: typeof instances.fenceInstance;
}
const wrong = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/operations/release/fence.ts'), async (original) => {
  const whole = await original();
  return {
    ...whole,
    abortIfUnregistered: (...given) => (wrong.abortIfUnregistered ?? whole.abortIfUnregistered)(...given),
  };
});
vi.mock(import('../../../src/store/agents/instances.ts'), async (original) => {
  const whole = await original();
  return { ...whole, fenceInstance: (...given) => (wrong.fenceInstance ?? whole.fenceInstance)(...given) };
});

/** The machine registers after all. */
async function registerLate(world: World, enrollment_token: string): Promise<void> {
  const body = { enrollment_token, version: 'late/1', agent_public_key: publicKeyOf(newKeyPair()) };
  const answer = await callRoute(world.server.url, 'agent-register', { body });
  if (answer.body.code !== 'instance_fenced')
    throw new Error(`a cancelled machine that comes late is answered ${answer.status} ${answer.text}`);
}

const waitForFact = (world: World, id: string, kind: string) =>
  world.waitFor(`${kind} on the timeline`, async () => {
    const { items } = await world.client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
    return items.some((fact) => fact.kind === kind) || undefined;
  });

let upstream: SlowUpstream;
const slowly = {
  drivers: (built: Map<string, SlowUpstream['driver']>) => {
    upstream = slowUpstream();
    return new Map([...built, ['simulated', upstream.driver]]);
  },
};

const beginsToLaunch = (world: World, id: string, message: string) =>
  world.waitFor(`its progress to say ${message}`, async () =>
    (await allocationOf(world, id)).progress?.message.includes(message),
  );

const acceptsAnyToken: Counter = {
  broken: 'instances that are not fenced, and a server that accepts any token',
  composition: withDeciders(() => ({ effectOfRegistration: () => 'count' })),
  around: whileBroken<Parts>(wrong, { fenceInstance: async () => {} }),
  fails: /a cancelled machine that comes late is answered 20/,
};

/** Ends nothing and reports absence without looking. */
const careless = (driver: Driver): Driver => {
  const done = async () => ({ outcome: 'done' as const, message: 'surely gone' });
  const prove: Driver['prove'] = async (_, { kind, nonce }) => ({
    outcome: 'done',
    proof: { kind, nonce, checked: [] },
  });
  return { ...driver, stop: done, abort: done, clean: done, destroy: done, prove };
};

scenario({
  name: 'a release while the provider creates, after the first progress',
  settings: slowly,
  async story(world) {
    await world.client.call('pool-put', {
      params: { pool: 'slow' },
      body: { driver: 'simulated', release: { step_tries: 1, retry_base_seconds: 3600 } },
    });
    upstream.aborts = false;
    const id = await allocate(world.client, 'slow');
    await beginsToLaunch(world, id, 'Creating');
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(world.client, id);
    await world.waitFor('the abort to be requested', () => upstream.calls.includes('abort requested') || undefined);
    // The machine is refused as fenced while the provider still works on it, not only at the end.
    await registerLate(world, token);
    expect((await allocationOf(world, id)).status, 'released before the abort was seen').toBe('releasing');
    upstream.aborts = true;
    const released = await waitForAllocation(world, id, 'released');
    expect(upstream.calls).toEqual(['creating', 'abort requested', 'abort observed', 'deleted', 'proven absent']);
    await waitForFact(world, id, 'proof.absent');
    await registerLate(world, token);
    const node = await world.client.call('node-get', { params: { id: released.node_id ?? '' } });
    expect(node).toMatchObject({ status: 'retired', occupancy: 'free' });
    expect((await world.ledger.facts(id, 'allocation.active')) + (await world.ledger.facts(id, 'node.starting'))).toBe(
      0,
    );
  },
  counters: [
    {
      broken: 'a release that aborts nothing',
      around: whileBroken<Parts>(wrong, { abortIfUnregistered: async () => {} }),
      fails: /waited \d+ s for the abort to be requested/,
    },
    acceptsAnyToken,
  ],
});

scenario({
  name: 'a release before anything was launched',
  settings: slowly,
  async story(world) {
    await world.client.call('pool-put', { params: { pool: 'slow' }, body: { driver: 'simulated', max_nodes: 1 } });
    upstream.hasRoom = false;
    const first = await allocate(world.client, 'slow');
    await beginsToLaunch(world, first, 'in the queue');
    const second = await allocate(world.client, 'slow');
    await beginsToLaunch(world, second, 'room in the pool');
    expect((await allocationOf(world, second)).status).toBe('requested');

    await release(world.client, second);
    expect(await waitForAllocation(world, second, 'released')).toMatchObject({
      node_id: null,
      reason: 'nothing had been brought up',
    });
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(world.client, first);
    await waitForAllocation(world, first, 'released');
    expect(upstream.calls).toEqual(['proven absent']);
    await waitForFact(world, first, 'proof.absent');
    await registerLate(world, token);
  },
  counters: [acceptsAnyToken],
});

scenario({
  name: 'a release of real processes that are set up or start',
  async story(world) {
    const { client, ledger, server } = world;
    const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
    try {
      await localPool(world, 'unborn', {
        spec: { setup: `while [ ! -e ${join(files, 'born')} ]; do sleep 0.1; done` },
      });
      // Its command exits repeatedly before the machine could become ready.
      await localPool(world, 'starting', { spec: { command: ['false'] } });
      const ids = [await allocate(client, 'unborn'), await allocate(client, 'starting')];
      const wanted: Record<string, string> = { unborn: 'provisioning', starting: 'starting' };
      const tokens = await world.waitFor('one to be set up and one to start', async () => {
        const { items } = await client.call('node-list', { query: {} });
        const there = items.filter((node) => node.status === wanted[node.pool]);
        const configs = there.map((node) => join(server.nodes_dir, node.node_instance_id ?? '', 'agent.json'));
        if (there.length < ids.length || !configs.every(existsSync)) return undefined;
        const running = findTaggedProcesses(ledger.installation_id).filter(({ agent }) => agent);
        if (running.length < ids.length) return undefined;
        return Promise.all(
          configs.map(async (path) => String(JSON.parse(await readFile(path, 'utf8')).enrollment_token)),
        );
      });
      for (const id of ids) await release(client, id);
      for (const id of ids) {
        await waitForAllocation(world, id, 'released');
        await waitForFact(world, id, 'proof.absent');
        expect(await ledger.facts(id, 'allocation.active')).toBe(0);
      }
      expect(findTaggedProcesses(ledger.installation_id), 'processes that are left').toEqual([]);
      expect(existsSync(server.nodes_dir) ? readdirSync(server.nodes_dir) : [], 'directories that are left').toEqual(
        [],
      );
      for (const token of tokens) await registerLate(world, token);
    } finally {
      killTagged(ledger.installation_id);
      await rm(files, { recursive: true, force: true });
    }
  },
  counters: [
    {
      broken: 'a driver that ends nothing and proves what it did not see',
      composition: {
        drivers: (built) =>
          new Map([...built].map(([name, driver]) => [name, name === 'local' ? careless(driver) : driver])),
      },
      fails: /processes that are left/,
    },
  ],
});
