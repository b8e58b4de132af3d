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
import { type Counter, type ScenarioContext, scenario, whileBroken, withDeciders } from '../support/scenario.ts';
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
async function registerLate(context: ScenarioContext, enrollment_token: string): Promise<void> {
  const body = { enrollment_token, version: 'late/1', agent_public_key: publicKeyOf(newKeyPair()) };
  const answer = await callRoute(context.server.url, 'agent-register', { body });
  if (answer.body.code !== 'instance_fenced')
    throw new Error(`a cancelled machine that comes late is answered ${answer.status} ${answer.text}`);
}

const waitForFact = (context: ScenarioContext, id: string, kind: string) =>
  context.waitFor(`${kind} on the timeline`, async () => {
    const { items } = await context.client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
    return items.some((fact) => fact.kind === kind) || undefined;
  });

let upstream: SlowUpstream;
const slowly = {
  drivers: (built: Map<string, SlowUpstream['driver']>) => {
    upstream = slowUpstream();
    return new Map([...built, ['simulated', upstream.driver]]);
  },
};

const beginsToLaunch = (context: ScenarioContext, id: string, message: string) =>
  context.waitFor(`its progress to say ${message}`, async () =>
    (await allocationOf(context, id)).progress?.message.includes(message),
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
  async story(context) {
    await context.client.call('pool-put', {
      params: { pool: 'slow' },
      body: { driver: 'simulated', release: { step_tries: 1, retry_base_seconds: 3600 } },
    });
    upstream.aborts = false;
    const id = await allocate(context.client, 'slow');
    await beginsToLaunch(context, id, 'Creating');
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(context.client, id);
    await context.waitFor('the abort to be requested', () => upstream.calls.includes('abort requested') || undefined);
    // The machine is refused as fenced while the provider still works on it, not only at the end.
    await registerLate(context, token);
    expect((await allocationOf(context, id)).status, 'released before the abort was seen').toBe('releasing');
    upstream.aborts = true;
    const released = await waitForAllocation(context, id, 'released');
    expect(upstream.calls).toEqual(['creating', 'abort requested', 'abort observed', 'deleted', 'proven absent']);
    await waitForFact(context, id, 'proof.absent');
    await registerLate(context, token);
    const node = await context.client.call('node-get', { params: { id: released.node_id ?? '' } });
    expect(node).toMatchObject({ status: 'retired', occupancy: 'free' });
    expect(
      (await context.db.countEvidence(id, 'allocation.active')) + (await context.db.countEvidence(id, 'node.starting')),
    ).toBe(0);
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
  async story(context) {
    await context.client.call('pool-put', { params: { pool: 'slow' }, body: { driver: 'simulated', max_nodes: 1 } });
    upstream.hasRoom = false;
    const first = await allocate(context.client, 'slow');
    await beginsToLaunch(context, first, 'in the queue');
    const second = await allocate(context.client, 'slow');
    await beginsToLaunch(context, second, 'room in the pool');
    expect((await allocationOf(context, second)).status).toBe('requested');

    await release(context.client, second);
    expect(await waitForAllocation(context, second, 'released')).toMatchObject({
      node_id: null,
      reason: 'nothing had been brought up',
    });
    const token = upstream.target?.bootstrap.enrollment_token ?? '';
    await release(context.client, first);
    await waitForAllocation(context, first, 'released');
    expect(upstream.calls).toEqual(['proven absent']);
    await waitForFact(context, first, 'proof.absent');
    await registerLate(context, token);
  },
  counters: [acceptsAnyToken],
});

scenario({
  name: 'a release of real processes that are set up or start',
  async story(context) {
    const { client, db, server } = context;
    const files = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
    try {
      await localPool(context, 'unborn', {
        spec: { setup: `while [ ! -e ${join(files, 'born')} ]; do sleep 0.1; done` },
      });
      // Its command exits repeatedly before the machine could become ready.
      await localPool(context, 'starting', { spec: { command: ['false'] } });
      const ids = [await allocate(client, 'unborn'), await allocate(client, 'starting')];
      const wanted: Record<string, string> = { unborn: 'provisioning', starting: 'starting' };
      const tokens = await context.waitFor('one to be set up and one to start', async () => {
        const { items } = await client.call('node-list', { query: {} });
        const there = items.filter((node) => node.status === wanted[node.pool]);
        const configs = there.map((node) => join(server.nodes_dir, node.node_instance_id ?? '', 'agent.json'));
        if (there.length < ids.length || !configs.every(existsSync)) return undefined;
        const running = findTaggedProcesses(db.installation_id).filter(({ agent }) => agent);
        if (running.length < ids.length) return undefined;
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
      expect(findTaggedProcesses(db.installation_id), 'processes that are left').toEqual([]);
      expect(existsSync(server.nodes_dir) ? readdirSync(server.nodes_dir) : [], 'directories that are left').toEqual(
        [],
      );
      for (const token of tokens) await registerLate(context, token);
    } finally {
      killTagged(db.installation_id);
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
