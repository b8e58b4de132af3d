/**
 * A machine checks the prerequisites of its pool before it may become ready. The verdict names a
 * missing one.
 */
import { expect, vi } from 'vitest';
import type { Node } from '../../../src/contract/node.ts';
import type * as Prerequisites from '../../../src/store/agents/prerequisites.ts';
import type { Machine } from '../../api/support/machine.ts';
import { allocate } from '../../support/allocations.ts';
import { startAgent } from '../support/agents.ts';
import {
  causesOf,
  changesOf,
  externalPool,
  joinMachine,
  keepBeating,
  localPool,
  nodeOf,
  waitForAllocation,
  waitForNode,
} from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken, withDeciders, withoutSweep } from '../support/scenario.ts';

type Parts = Pick<typeof Prerequisites, 'reportPrerequisites'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/agents/prerequisites.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    reportPrerequisites: (...args) => (brokenParts.reportPrerequisites ?? originalModule.reportPrerequisites)(...args),
  };
});

/** Long enough that no machine counts as silent, however busy the host is. */
const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 600 };
/** Several runs of every rule. */
const watchSeconds = 3;
const beatEvery = 0.3;
const start_seconds = 2;
const requires = [
  { name: 'gpu-driver', check: 'nvidia-smi -L' },
  { name: 'scratch-disk', check: 'mountpoint /scratch' },
];

const pool = (context: ScenarioContext, budgets = {}) => externalPool(context, 'gpu', { heartbeat, requires, budgets });

const reportChecks = (machine: Machine, found: Record<string, boolean>) =>
  machine.call('agent-prerequisites', {
    body: {
      results: Object.entries(found).map(([name, ok]) => ({ name, ok, ...(!ok && { detail: 'no device found' }) })),
    },
  });
const met = { 'gpu-driver': true, 'scratch-disk': true };

scenario({
  name: 'a machine that reports ready before its checks are reported',
  async story(context) {
    await pool(context);
    const machine = await joinMachine(context, 'gpu', 'gpu-1');
    await machine.beat('ready');
    const beats = keepBeating(machine, beatEvery, 'ready');
    try {
      await reportChecks(machine, { 'gpu-driver': true });
      await context.expectNever('the machine became ready', watchSeconds, async () => {
        const { status, reported } = await nodeOf(context, machine.node_id);
        expect(reported?.status).toBe('ready');
        return status !== 'starting';
      });
      const explanation = await context.client.call('node-explain', { params: { id: machine.node_id } });
      expect(explanation.waiting_for).toBe('its prerequisites to be checked and met');
    } finally {
      await beats.stop();
    }
    // The machine need not report ready again.
    await reportChecks(machine, met);
    await waitForNode(context, machine.node_id, 'ready');
    expect(await causesOf(context, machine.node_id)).toEqual(['join', 'registration', 'claim-ready']);
  },
  counterTests: [
    {
      broken: 'a report of ready that counts before the checks',
      composition: withDeciders((right) => ({
        effectOfBeat: (node, beat, now) => right.effectOfBeat({ ...node, prerequisites: null }, beat, now),
      })),
      fails: /the machine became ready, and should not/,
    },
    {
      broken: 'ignored check reports',
      around: whileBroken(brokenParts, { reportPrerequisites: async () => 'starting' }),
      fails: /waited .* for node to be ready/,
    },
  ],
});

scenario({
  name: 'a machine that lacks a prerequisite',
  async story(context) {
    await pool(context);
    const machine = await joinMachine(context, 'gpu', 'gpu-2');
    await reportChecks(machine, { ...met, 'gpu-driver': false });
    const failed = await waitForNode(context, machine.node_id, 'failed');
    expect(failed.verdict).toMatchObject({
      rule: 'prerequisite-missing',
      reason: 'prerequisite_missing: gpu-driver (no device found)',
    });
    const explanation = await context.client.call('node-explain', { params: { id: machine.node_id } });
    expect(explanation.because).toMatchObject({ rule: 'prerequisite-missing', verdict: failed.verdict?.reason });
    await machine.beat('ready');
    expect((await nodeOf(context, machine.node_id)).status, 'the status after a heartbeat without the driver').toBe(
      'failed',
    );

    await reportChecks(machine, met);
    await machine.beat('ready');
    await waitForNode(context, machine.node_id, 'ready');
    const changes = await changesOf(context, machine.node_id);
    expect(changes.map(({ by }) => by)).toEqual([
      'join',
      'registration',
      'prerequisite-missing',
      'late-registration',
      'claim-ready',
    ]);
  },
  counterTests: [
    {
      broken: 'ignored check reports',
      around: whileBroken(brokenParts, { reportPrerequisites: async () => 'starting' }),
      fails: /waited .* for node to be failed/,
    },
  ],
});

scenario({
  name: 'a machine that never reports its checks',
  async story(context) {
    await pool(context, { start_seconds });
    const machine = await joinMachine(context, 'gpu', 'gpu-3');
    const beats = keepBeating(machine, beatEvery, 'ready');
    try {
      const failed = await waitForNode(context, machine.node_id, 'failed');
      expect(failed.verdict).toMatchObject({ rule: 'start-deadline' });
      expect(failed.verdict?.reason).toMatch(/^start-up timed out: it never said whether its prerequisites are met/);
    } finally {
      await beats.stop();
    }
  },
  counterTests: [
    {
      broken: 'no start-deadline rule',
      composition: withoutSweep('start-deadline'),
      fails: /waited .* for node to be failed/,
    },
  ],
});

/** The checks that real agents run. One takes time, like querying a driver. */
const presentDriver = { name: 'gpu-driver', check: 'sleep 0.5' };
const shell = { name: 'shell', check: 'true' };
const missingDriver = { name: 'gpu-driver', check: 'echo no device found; exit 3' };

const readCheckNames = async (context: ScenarioContext, id: string, kind: string) =>
  (await context.client.call('node-timeline', { params: { id }, query: { kind } })).items.map((fact) => fact.data.name);

scenario({
  name: 'checks by real agents, on local and on external machines',
  async story(context) {
    for (const [pool, driverCheck] of [
      ['equipped', presentDriver],
      ['bare', missingDriver],
    ] as const) {
      const requiredChecks = [shell, driverCheck];
      await localPool(context, pool, { heartbeat, requires: requiredChecks });
      await externalPool(context, `${pool}-others`, { heartbeat, requires: requiredChecks });
    }
    const start = async (pool: string) => {
      const { token } = await context.client.call('join-token-create', { params: { pool } });
      await startAgent(context, { join_token: token, name: pool });
    };
    const waitForNodeIn = (pool: string, status: Node['status']) =>
      context.waitFor(`machine of ${pool} to be ${status}`, async () => {
        const { items } = await context.client.call('node-list', { query: { pool } });
        return items.find((node) => node.status === status);
      });
    await start('equipped-others');
    await start('bare-others');
    const active = await allocate(context.client, 'equipped');
    const failingId = await allocate(context.client, 'bare');

    const ready = [await waitForNodeIn('equipped-others', 'ready'), await waitForNodeIn('equipped', 'ready')];
    for (const { node_id } of ready)
      await context.waitFor('both checks on the timeline', async () => {
        const met = await readCheckNames(context, node_id, 'prerequisite.met');
        return met.includes('gpu-driver') && met.includes('shell');
      });
    await waitForAllocation(context, active, 'active');

    const failed = await waitForNodeIn('bare-others', 'failed');
    expect(failed.verdict?.rule).toBe('prerequisite-missing');
    expect(failed.verdict?.reason).toMatch(/^prerequisite_missing: gpu-driver \(its check exited with code 3/);
    const { reason } = await waitForAllocation(context, failingId, 'failed');
    expect(reason).toMatch(/gpu-driver is missing.*prerequisite_missing/);
  },
  counterTests: [
    {
      broken: 'ignored check reports',
      around: whileBroken(brokenParts, { reportPrerequisites: async () => 'starting' }),
      fails: /waited .* for machine of equipped-others to be ready/,
      patience_seconds: 10,
    },
  ],
});
