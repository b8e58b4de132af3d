/**
 * The bootstrap watcher inspects a machine exactly as long as the deadline rule waits, also after
 * an operator moved the deadline. An early crash ends the wait at once.
 */
import { expect } from 'vitest';
import { secondsBetween, systemClock } from '../../../src/base/clock.ts';
import { allocate, declarePool } from '../../support/allocations.ts';
import { type ScenarioContext, scenario } from '../support/scenario.ts';
import { simulatedDriver } from '../support/simulated-driver.ts';

const waitForFailure = (context: ScenarioContext, id: string) =>
  context.waitFor('the allocation to have failed', async () => {
    const allocation = await context.client.call('allocation-get', { params: { id } });
    return allocation.status === 'failed' ? allocation : undefined;
  });

const readFacts = async (context: ScenarioContext, allocation_id: string, kind: string) =>
  (await context.client.call('timeline-get', { query: { allocation_id, kind, limit: 100 } })).items;

scenario({
  name: 'an early crash is diagnosed and ends the provision long before its budget',
  async story(context) {
    const provision_seconds = 300;
    await declarePool(context.client, 'crashing', {
      budgets: { provision_seconds },
      spec: { setup: 'echo "Out of memory: Killed process 42 (python)" >&2; exit 9' },
    });
    const id = await allocate(context.client, 'crashing');
    const failed = await waitForFailure(context, id);
    expect(failed.reason).toContain('setup exited with code 9');
    // The first diagnosis may read the output before the process exits, so wait for a certain one.
    const diagnosis = await context.waitFor('the diagnosis', async () => {
      const found = await readFacts(context, id, 'bootstrap.diagnosis');
      return found.find(({ data }) => data.certain === true);
    });
    expect(diagnosis.data).toMatchObject({ code: 'out_of_memory' });
    const waitedSeconds = secondsBetween(new Date(failed.created_at), new Date(failed.status_since));
    expect(waitedSeconds).toBeLessThan(provision_seconds / 2);
    const operation = await context.waitFor('the operation to have failed', async () => {
      const [only] = (await context.client.call('operation-list', { query: {} })).items;
      return only?.status === 'failed' ? only : undefined;
    });
    expect(operation).toMatchObject({ error: { code: 'setup_failed', step: 'register' } });
  },
  counterTests: [
    {
      broken: 'a driver that diagnoses nothing',
      composition: {
        drivers: (built) =>
          new Map(
            [...built].map(([name, driver]) => [
              name,
              { ...driver, diagnose: async () => ({ summary: 'nothing', certain: false, attachments: [] }) },
            ]),
          ),
      },
      fails: /waited .* for the allocation to have failed/,
    },
  ],
});

let inspectionTimes: number[] = [];
const lockstepDriver = simulatedDriver({
  /** A machine that never registers and shows nothing. */
  inspect: async () => {
    inspectionTimes.push(systemClock.nowMs());
    return { state: 'running', present: true, ready: false, detail: null };
  },
});

/** Long enough for a busy machine to move the deadline in time. */
const provision_seconds = 5;
/** Long enough for at least one inspection between the two deadlines on a busy host. */
const extended_by = 12;

scenario({
  name: 'the watcher inspects the machine until the moved deadline and not beyond it',
  async story(context) {
    inspectionTimes = [];
    await context.client.call('pool-put', {
      params: { pool: 'silent' },
      body: { driver: 'simulated', budgets: { provision_seconds, rescue_seconds: 600 } },
    });
    const id = await allocate(context.client, 'silent');
    const node_id = await context.waitFor('the node of the allocation', async () => {
      const allocation = await context.client.call('allocation-get', { params: { id } });
      return allocation.node_id ?? undefined;
    });
    const before = await context.client.call('node-get', { params: { id: node_id } });
    const { node } = await context.client.call('node-act', {
      params: { id: node_id, action: 'extend-deadline' },
      body: { reason: 'a slow mirror today', seconds: extended_by },
    });
    const deadline = new Date(node.deadline_at ?? '');
    expect(secondsBetween(new Date(before.deadline_at ?? ''), deadline)).toBeCloseTo(extended_by, 3);
    await waitForFailure(context, id);
    // The rescue window starts when the operation that waited for the machine has ended.
    await context.waitFor('the rescue window', async () => {
      const { deadline_at } = await context.client.call('allocation-get', { params: { id } });
      return deadline_at !== null;
    });
    const failedNode = await context.client.call('node-get', { params: { id: node_id } });
    expect(failedNode.verdict).toMatchObject({ rule: 'provision-deadline' });
    expect(new Date(failedNode.status_since) >= deadline, 'not before the moved deadline').toBe(true);
    // The watcher went on past the first deadline and stopped at the moved one.
    const decidedMs = new Date(failedNode.status_since).getTime();
    const last = new Date(inspectionTimes.findLast((at) => at < decidedMs) ?? 0);
    expect(last > new Date(before.deadline_at ?? '')).toBe(true);
    expect(last <= deadline).toBe(true);
    // One inspection after the verdict is allowed: the diagnosis of the failure makes it.
    expect(inspectionTimes.filter((at) => at >= decidedMs).length).toBeLessThanOrEqual(1);
    const [moved] = await readFacts(context, id, 'node.deadline_moved');
    expect(moved).toMatchObject({ actor: { kind: 'token' } });
    expect(moved?.summary).toContain('a slow mirror today');
  },
  counterTests: [
    {
      broken: 'a deadline that no rule enforces',
      composition: {
        sweeps: (registry) => registry.filter((sweep) => sweep.name !== 'provision-deadline'),
      },
      fails: /waited .* for the allocation to have failed/,
      patience_seconds: provision_seconds + extended_by + 3,
    },
  ],
  settings: { drivers: (built) => new Map([...built, ['simulated', lockstepDriver]]) },
});
