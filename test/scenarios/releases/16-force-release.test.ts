/**
 * A forced release without a proof leaves residue, which is checked until it is gone. Leaked
 * processes are recorded as residue too.
 */
import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Residue } from '../../../src/contract/supervision/residue.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { declarePool } from '../../support/allocations.ts';
import { findTaggedProcesses, killTagged } from '../../support/tagged-processes.ts';
import { allocationOf, nodeOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withoutSweep } from '../support/scenario.ts';

const every_seconds = 1;
const settings = {
  environment: <E extends object>(built: E) => ({ ...built, orphans: { every_seconds } }),
};
/** The first retry would come after the test, so only the forced release can end the release. */
const release = { step_tries: 1, retry_base_seconds: 600, retry_max_seconds: 600 };
const reason = 'the tenant cannot wait';

const readActions = async ({ client }: ScenarioContext, id: string) => {
  const { items } = await client.call('node-actions', { params: { id } });
  return Object.fromEntries(items.map(({ action, open, why_not }) => [action, open ? 'open' : why_not]));
};

const act = (
  { client }: ScenarioContext,
  id: string,
  action: 'force-release' | 'reactivate' | 'retire',
  dry_run = false,
) => client.call('node-act', { params: { id, action }, body: { reason, dry_run } });

async function readResidue({ client }: ScenarioContext, of: Partial<Residue>): Promise<Residue[]> {
  const { items } = await client.call('residue-list', {});
  return items.filter((each) => Object.entries(of).every(([key, value]) => each[key as keyof Residue] === value));
}

/** A machine whose release failed at its `clean`. */
async function stuckMachine(
  context: ScenarioContext,
  pool: string,
): Promise<{ id: string; node_id: string; instance: string }> {
  const { allocation } = await context.client.call('allocation-create', { body: { pool } });
  const id = allocation.allocation_id;
  const { node_id } = await waitForAllocation(context, id, 'active');
  await context.client.call('allocation-release', { params: { id } });
  await waitForAllocation(context, id, 'release_failed');
  const { node_instance_id } = await nodeOf(context, node_id ?? '');
  return { id, node_id: node_id ?? '', instance: node_instance_id ?? '' };
}

/** Removes the processes and the directory of an instance without the server. */
async function removeByHand({ server, db }: ScenarioContext, instance: string): Promise<void> {
  killTagged(db.installation_id, instance);
  // The launcher records the agent's exit in this directory, perhaps while it is removed.
  await rm(join(server.nodes_dir, instance), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
}

const isForced = (fact: { kind: string; actor: unknown }) => fact.kind === 'residue.left' && fact.actor !== null;

scenario({
  name: 'a reused machine that cannot be proven clean',
  settings,
  async story(context) {
    const { client, waitFor } = context;
    const cleanable = join(context.server.data_dir, 'cleanable');
    await declarePool(client, 'again', {
      reuse: true,
      max_nodes: 1,
      release,
      spec: { clean: `test -e ${cleanable} || { echo the disk is busy; exit 3; }` },
    });
    const { id, node_id, instance } = await stuckMachine(context, 'again');
    expect(await readActions(context, node_id)).toMatchObject({ 'force-release': 'open', retire: expect.any(String) });
    const preview = await act(context, node_id, 'force-release', true);
    expect(preview.predicts.says).toContain('residue');
    expect((await allocationOf(context, id)).status).toBe('release_failed');

    await act(context, node_id, 'force-release');
    const released = await waitForAllocation(context, id, 'released');
    expect(await nodeOf(context, node_id)).toMatchObject({
      ...{ status: 'quarantined', fenced: true, occupancy: 'cleanup' },
      verdict: { rule: 'force-release', reason: released.reason, owner: 'operator' },
    });
    const [residue, ...otherResidue] = await readResidue(context, { allocation_id: id });
    expect(otherResidue).toEqual([]);
    expect(residue).toMatchObject({
      why: 'force-release',
      status: 'open',
      node_id,
      node_instance_id: instance,
      pool: 'again',
    });
    expect(residue).toMatchObject({ kind: 'directory', forced_by: { name: expect.any(String) }, reason, proof: null });
    expect((await readActions(context, node_id)).reactivate).toContain('residue');
    await expect(act(context, node_id, 'reactivate')).rejects.toMatchObject({ problem: { code: 'action_illegal' } });
    const released_by = await waitFor('the forced release on the timeline', async () => {
      const { items } = await client.call('timeline-get', { query: { allocation_id: id, limit: 500 } });
      const end = items.find(({ kind }) => kind === 'allocation.released');
      return items.some(isForced) ? end?.data.by : undefined;
    });
    expect(released_by, 'the cause of an unproven release').toBe('force-release');

    // The driver and the agent check the residue repeatedly. It stays open until its cause is gone.
    const recheckedResidue = await waitFor('another check', async () => {
      const [again] = await readResidue(context, { allocation_id: id });
      return again && again.verified_at !== residue?.verified_at && again.seen !== residue?.seen ? again : undefined;
    });
    expect(recheckedResidue.status).toBe('open');
    await writeFile(cleanable, '');
    const settledResidue = await waitFor('the residue to be gone', async () => {
      const [entry] = await readResidue(context, { allocation_id: id, status: 'gone' });
      return entry;
    });
    expect(settledResidue.proof).toMatchObject({ kind: 'clean' });
    const quarantined = await nodeOf(context, node_id);
    expect(quarantined).toMatchObject({ status: 'quarantined', occupancy: 'free' });
    // Once the residue is settled, the fence reason says so and no longer names the missing proof.
    expect(quarantined.fence_reason).toMatch(/residue is settled, so you can reactivate or retire it/);
    expect((await readActions(context, node_id)).reactivate).toBe('open');
    await act(context, node_id, 'reactivate');
    await waitForNode(context, node_id, 'ready');
    const next = await client.call('allocation-create', { body: { pool: 'again' } });
    const nextAllocation = await waitForAllocation(context, next.allocation.allocation_id, 'active');
    expect(nextAllocation.node_id).toBe(node_id);
  },
  counterTests: [
    {
      broken: 'no further checks',
      composition: withoutSweep('orphans'),
      fails: /another check/,
    },
  ],
});

/** A driver that reports absence without checking. */
const reportsFalseProof = (driver: Driver): Driver => ({
  ...driver,
  prove: async (_, { kind, nonce }) => ({ outcome: 'done', proof: { kind, nonce, checked: [] } }),
});

scenario({
  name: 'a forced teardown, first without a proof and then with one',
  settings,
  async story(context) {
    const { client, waitFor, db } = context;
    // The test kills the agent before the forced release, so the driver runs `clean`, which fails
    // and leaves the directory.
    const spec = { command: ['sleep', '600'], clean: 'echo the mount hangs; exit 4' };
    await declarePool(client, 'once', { release, spec });
    const { id, node_id, instance } = await stuckMachine(context, 'once');
    const agent = findTaggedProcesses(db.installation_id).find((each) => each.agent);
    if (!agent) throw new Error('the machine has no agent process to kill');
    process.kill(agent.pid, 'SIGKILL');
    await act(context, node_id, 'force-release');
    const released = await waitForAllocation(context, id, 'released');
    expect(released.reason).toContain('without proof: still there on host');
    expect(await nodeOf(context, node_id)).toMatchObject({ status: 'quarantined', occupancy: 'cleanup' });
    const [residue] = await readResidue(context, { allocation_id: id });
    expect(residue).toMatchObject({
      status: 'open',
      resource: join(context.server.nodes_dir, instance),
      kind: 'directory',
    });
    const { text } = await readMetrics(context);
    expect(text).toContain('slipway_residue_open{driver="local"} 1');
    await removeByHand(context, instance);
    const settledResidue = await waitFor('the residue to be gone', async () => {
      const [entry] = await readResidue(context, { allocation_id: id, status: 'gone' });
      return entry;
    });
    expect(settledResidue).toMatchObject({
      proof: { kind: 'absent' },
      seen: expect.stringContaining('does not exist'),
    });
    expect((await nodeOf(context, node_id)).status, 'the status after the proof').toBe('retired');

    const second = await stuckMachine(context, 'once');
    await removeByHand(context, second.instance);
    await act(context, second.node_id, 'force-release');
    const cleanRelease = await waitForAllocation(context, second.id, 'released');
    expect(cleanRelease.reason).toBe('its machine is proven gone');
    expect(await nodeOf(context, second.node_id)).toMatchObject({ status: 'retired' });
    expect(await readResidue(context, { allocation_id: second.id })).toEqual([]);
    expect(await db.countEvidence(second.id, 'proof.absent')).toBe(1);
  },
  counterTests: [
    {
      broken: 'a driver that reports absence without checking',
      composition: {
        drivers: (built) =>
          new Map([...built].map(([name, driver]) => [name, name === 'local' ? reportsFalseProof(driver) : driver])),
      },
      fails: /without proof/,
    },
  ],
});

async function readMetrics({ server }: ScenarioContext): Promise<{ text: string }> {
  const reply = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } });
  return { text: await reply.text() };
}

/** Starts a real process with our tags that no row in the database names. */
function startLeakedProcess({ db }: ScenarioContext, node_instance_id: string) {
  const child = spawn('sleep', ['600'], {
    cwd: '/',
    detached: true,
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH ?? '',
      SLIPWAY_INSTALLATION_ID: db.installation_id,
      SLIPWAY_NODE_ID: 'node_nobody',
      SLIPWAY_NODE_INSTANCE_ID: node_instance_id,
    },
  });
  return { pid: child.pid ?? 0, ended: new Promise<void>((resolve) => child.once('exit', () => resolve())) };
}

scenario({
  name: 'a process with our tags that no row names',
  settings,
  async story(context) {
    const { client, waitFor } = context;
    await declarePool(client, 'live', { spec: { command: ['sleep', '600'] } });
    const { allocation } = await client.call('allocation-create', { body: { pool: 'live' } });
    await waitForAllocation(context, allocation.allocation_id, 'active');
    const leakToDelete = startLeakedProcess(context, 'inst_deleted');
    const leakToAdopt = startLeakedProcess(context, 'inst_adopted');
    try {
      const waitForLeak = (node_instance_id: string) =>
        waitFor('the leak to be found', async () => (await readResidue(context, { node_instance_id }))[0]);
      const foundResidue = await waitForLeak('inst_deleted');
      expect(foundResidue).toMatchObject({
        why: 'orphan',
        status: 'open',
        kind: 'process',
        resource: `pid:${leakToDelete.pid}`,
      });
      const adoption = await client.call('residue-adopt', {
        params: { id: (await waitForLeak('inst_adopted')).residue_id },
        body: { reason: 'it is my debugging session' },
      });
      expect(adoption.residue).toMatchObject({ status: 'adopted', settled_by: { name: expect.any(String) } });

      const request = { params: { id: foundResidue.residue_id }, body: { reason: 'nobody misses it' } };
      expect(await client.call('residue-delete', request)).toMatchObject({ operation: { kind: 'residue-delete' } });
      await leakToDelete.ended;
      const settledResidue = await waitFor('the proof that it is gone', async () => {
        const [entry] = await readResidue(context, { residue_id: foundResidue.residue_id, status: 'gone' });
        return entry;
      });
      expect(settledResidue).toMatchObject({ settled_reason: 'nobody misses it', proof: { kind: 'absent' } });
      await expect(client.call('residue-delete', request)).rejects.toMatchObject({
        problem: { code: 'action_illegal' },
      });

      // After several passes, a machine with a row is not recorded as a leak, and an adopted
      // process is not recorded again.
      const countPasses = async () =>
        (await client.call('sweep-list', {})).items.find(({ name }) => name === 'orphans')?.runs ?? 0;
      const before = await countPasses();
      await waitFor('three more passes', async () => (await countPasses()) >= before + 3);
      const { items } = await client.call('residue-list', { query: { status: 'open' } });
      expect(items).toEqual([]);
      process.kill(leakToAdopt.pid, 0);
    } finally {
      for (const { pid } of [leakToDelete, leakToAdopt]) killIfAlive(pid);
    }
  },
  counterTests: [
    {
      broken: 'no orphans sweep',
      composition: withoutSweep('orphans'),
      fails: /the leak to be found/,
    },
  ],
});

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
