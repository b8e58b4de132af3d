/**
 * In an observe-only pool every rule decides, records once what it would have done, and changes
 * nothing.
 */
import { expect } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import { callRoute } from '../../api/support/calls.ts';
import { beatingFleet } from '../support/fleet.ts';
import { externalPool, joinMachine, keepBeating, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
/** For machines that send heartbeats: so long that none counts as silent on a busy host. */
const longStaleTime = { ...heartbeat, stale_after_seconds: 600 };
const beatEvery = 0.3;
const shortSeconds = 2;
const budgets = { provision_seconds: shortSeconds, start_seconds: shortSeconds, offline_seconds: shortSeconds };
/** Several runs of every rule. */
const quietSeconds = 6;

interface WatchedNode {
  id: string;
  /** The current status. `to` is the status that the rule would have written. */
  status: Node['status'];
  rule: string;
  to: string;
}

async function countRecords(context: ScenarioContext, id: string, rule: string): Promise<number> {
  const query = { kind: 'node.would_have', limit: 100 };
  const { items } = await context.client.call('node-timeline', { params: { id }, query });
  return items.filter((fact) => fact.data.by === rule).length;
}

const waitForRecord = (context: ScenarioContext, { id, rule, to, status }: WatchedNode) =>
  context.waitFor(`${rule} to be recorded`, async () => {
    const node = await nodeOf(context, id);
    expect(node.status, 'the status in an observe-only pool').toBe(status);
    return node.would_have?.rule === rule && node.would_have.to === to ? node : undefined;
  });

/** A machine that fails to come up. The operation fails it, not a rule. */
async function waitForFailedMachine(context: ScenarioContext): Promise<string> {
  await context.client.call('pool-put', {
    params: { pool: 'own' },
    body: { driver: 'local', mode: 'observe', budgets: { rescue_seconds: shortSeconds }, spec: { setup: 'exit 1' } },
  });
  const { allocation } = await context.client.call('allocation-create', { body: { pool: 'own' } });
  return context.waitFor('a machine to fail', async () => {
    const { node_id } = await context.client.call('allocation-get', { params: { id: allocation.allocation_id } });
    return node_id && (await nodeOf(context, node_id)).status === 'failed' ? node_id : undefined;
  });
}

async function watchEveryRule(context: ScenarioContext): Promise<{ watched: WatchedNode[]; end(): Promise<void> }> {
  await externalPool(context, 'watched', { mode: 'observe', heartbeat: longStaleTime, budgets });
  await externalPool(context, 'hushed', { mode: 'observe', heartbeat });
  await externalPool(context, 'equipped', {
    mode: 'observe',
    heartbeat: longStaleTime,
    requires: [{ name: 'gpu-driver', check: 'nvidia-smi -L' }],
  });
  const failedId = await waitForFailedMachine(context);
  const { node: expected } = await context.client.call('node-create', { body: { pool: 'watched', name: 'expected' } });
  const stuckMachine = await joinMachine(context, 'watched', 'stuck');
  const stuckBeats = keepBeating(stuckMachine, beatEvery, 'starting');
  const mute = await joinMachine(context, 'watched', 'mute');
  const leavingMachine = await joinMachine(context, 'watched', 'leaving');
  await leavingMachine.beat('ready');
  await leavingMachine.beat('stopping');
  const silentMachine = await joinMachine(context, 'hushed', 'silent');
  await silentMachine.beat('ready');
  const ill = await joinMachine(context, 'watched', 'ill');
  await ill.beat('ready');
  const bare = await joinMachine(context, 'equipped', 'bare');
  const missingDriver = { results: [{ name: 'gpu-driver', ok: false, detail: 'no device' }] };
  await bare.call('agent-prerequisites', { body: missingDriver });

  const bareBeats = keepBeating(bare, beatEvery);
  let isOver = false;
  const illBeats = (async () => {
    while (!isOver) {
      await ill.call('agent-heartbeat', { body: { error_rate: 0.9 } });
      await pause(systemClock, beatEvery * 1000);
    }
  })();
  return {
    watched: [
      { id: expected.node_id, status: 'provisioning', rule: 'provision-deadline', to: 'failed' },
      { id: stuckMachine.node_id, status: 'starting', rule: 'stuck-starting', to: 'ready' },
      { id: mute.node_id, status: 'starting', rule: 'start-deadline', to: 'failed' },
      { id: leavingMachine.node_id, status: 'offline', rule: 'offline-deadline', to: 'failed' },
      { id: silentMachine.node_id, status: 'ready', rule: 'liveness', to: 'offline' },
      { id: ill.node_id, status: 'ready', rule: 'degraded', to: 'degraded' },
      { id: bare.node_id, status: 'starting', rule: 'prerequisite-missing', to: 'failed' },
      { id: failedId, status: 'failed', rule: 'rescue-over', to: 'cleaning' },
    ],
    async end() {
      isOver = true;
      await Promise.all([stuckBeats.stop(), bareBeats.stop(), illBeats]);
    },
  };
}

/** The rules that act on a report. The other rules are sweeps, which count their records. */
const reportRules = ['degraded', 'prerequisite-missing'];

/**
 * Expects one record, and at most one more for each gap in ingest. A gap moves deadlines, and the
 * rule records its decision again for the new deadline.
 */
async function expectOnce(context: ScenarioContext, times: number, what: string): Promise<void> {
  const gaps = await context.db.countRows('select 1 from ingest_gaps');
  expect(times, `${what}, with ${gaps} gaps`).toBeGreaterThanOrEqual(1);
  expect(times, `${what}, with ${gaps} gaps`).toBeLessThanOrEqual(1 + gaps);
}

async function expectCounted(context: ScenarioContext, watched: WatchedNode[]): Promise<void> {
  const { items } = await context.client.call('sweep-list', {});
  const metrics = await callRoute(context.server.url, 'metrics-get', {}, { bearer: context.server.token });
  for (const { rule } of watched.filter((each) => !reportRules.includes(each.rule))) {
    const sweep = items.find((each) => each.name === rule);
    expect(sweep, rule).toMatchObject({ decided: 0, held: 0 });
    await expectOnce(context, sweep?.would_have ?? 0, `${rule} is counted once`);
    const line = new RegExp(`^slipway_sweep_would_have_total\\{sweep="${rule}"\\} (\\d+)$`, 'm');
    await expectOnce(context, Number(line.exec(metrics.text)?.[1]), `the metric counts ${rule} once`);
  }
}

async function expectExplained(context: ScenarioContext, { id, rule, to, status }: WatchedNode): Promise<void> {
  const explanation = await context.client.call('node-explain', { params: { id } });
  expect(explanation).toMatchObject({ status, would_have: { rule, to } });
  expect(explanation.because.evidence.map((fact) => fact.kind)).toContain('node.would_have');
  const step = explanation.next.find((each) => each.then.includes(`by ${rule}`));
  if (step) expect(step.then).toMatch(/^would be .*; the pool is observe-only$/);
}

scenario({
  name: 'an observe-only pool',
  async story(context) {
    const { watched, end } = await watchEveryRule(context);
    try {
      const first: Node[] = [];
      for (const each of watched) first.push(await waitForRecord(context, each));
      await context.expectNever('something changed', quietSeconds, async () => {
        const nodes = await Promise.all(watched.map(({ id }) => nodeOf(context, id)));
        return nodes.some((node, i) => node.status_since !== first[i]?.status_since);
      });
      for (const each of watched) {
        await expectOnce(context, await countRecords(context, each.id, each.rule), `${each.rule} is recorded once`);
        await expectExplained(context, each);
      }
      await expectCounted(context, watched);
      expect(await context.db.countRows(`select 1 from operations where kind = 'node-retire'`)).toBe(0);
    } finally {
      await end();
    }
  },
  counterTests: [
    {
      broken: 'rules that ignore the mode',
      composition: withDeciders(() => ({ isObserveOnly: () => false })),
      fails: /the status in an observe-only pool/,
    },
  ],
});

scenario({
  name: 'a machine in an observe-only pool that goes silent twice',
  async story(context) {
    await externalPool(context, 'watched', { mode: 'observe', heartbeat });
    const fleet = await beatingFleet(context, 'watched', 1, beatEvery);
    const [machine] = fleet.machines;
    const id = machine?.node_id ?? '';
    try {
      for (const times of [1, 2]) {
        const before = await countRecords(context, id, 'liveness');
        fleet.silence(fleet.machines);
        await context.waitFor(
          `silence number ${times} to be recorded`,
          async () => (await countRecords(context, id, 'liveness')) > before,
        );
        fleet.resume(fleet.machines);
        const { at } = (await nodeOf(context, id)).would_have ?? { at: '' };
        await context.waitFor(
          'the machine to beat again',
          async () => ((await nodeOf(context, id)).last_seen_at ?? '') > at,
        );
      }
      expect((await nodeOf(context, id)).status).toBe('ready');
    } finally {
      await fleet.end();
    }
  },
  counterTests: [
    {
      broken: 'rules that ignore the mode',
      composition: withDeciders(() => ({ isObserveOnly: () => false })),
      fails: /waited .* for silence number 1 to be recorded/,
    },
  ],
});

scenario({
  name: 'a pool that leaves observe mode',
  async story(context) {
    const document = { heartbeat, budgets: { provision_seconds: shortSeconds } };
    await externalPool(context, 'watched', { ...document, mode: 'observe' });
    const { node } = await context.client.call('node-create', { body: { pool: 'watched', name: 'expected' } });
    const silentMachine = await joinMachine(context, 'watched', 'silent');
    await silentMachine.beat('ready');
    await waitForRecord(context, {
      id: node.node_id,
      status: 'provisioning',
      rule: 'provision-deadline',
      to: 'failed',
    });
    await waitForRecord(context, { id: silentMachine.node_id, status: 'ready', rule: 'liveness', to: 'offline' });
    await externalPool(context, 'watched', { ...document, mode: 'enforce' });
    await waitForNode(context, node.node_id, 'failed');
    await waitForNode(context, silentMachine.node_id, 'offline');
  },
  counterTests: [
    {
      broken: 'rules that keep observing',
      composition: withDeciders(() => ({ isObserveOnly: (_cause, trigger) => trigger === 'rule' })),
      fails: /waited .* for node to be failed/,
      patience_seconds: 10,
    },
  ],
});
