/**
 * An observe-only pool: every rule decides, records once what it would have done, and changes
 * nothing.
 */
import { expect } from 'vitest';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import { callRoute } from '../../api/support/calls.ts';
import { beatingFleet } from '../support/fleet.ts';
import { externalPool, joinMachine, keepBeating, nodeOf, waitForNode } from '../support/machines.ts';
import { scenario, type World, withDeciders } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
/** For machines that beat: long enough that a busy host does not miss any. */
const patient = { ...heartbeat, stale_after_seconds: 600 };
const beatEvery = 0.3;
const short = 2;
const budgets = { provision_seconds: short, start_seconds: short, offline_seconds: short };
/** Several runs of every rule. */
const quietSeconds = 6;

interface Watched {
  id: string;
  /** Its current status; `to` is the one it would have got. */
  status: Node['status'];
  rule: string;
  to: string;
}

async function countRecords(world: World, id: string, rule: string): Promise<number> {
  const query = { kind: 'node.would_have', limit: 100 };
  const { items } = await world.client.call('node-timeline', { params: { id }, query });
  return items.filter((fact) => fact.data.by === rule).length;
}

const waitForRecord = (world: World, { id, rule, to, status }: Watched) =>
  world.waitFor(`${rule} to be recorded`, async () => {
    const node = await nodeOf(world, id);
    expect(node.status, 'changed, and should not').toBe(status);
    return node.would_have?.rule === rule && node.would_have.to === to ? node : undefined;
  });

/** A machine that cannot be brought up; here the operation fails it, not a rule. */
async function failedMachine(world: World): Promise<string> {
  await world.client.call('pool-put', {
    params: { pool: 'own' },
    body: { driver: 'local', mode: 'observe', budgets: { rescue_seconds: short }, spec: { setup: 'exit 1' } },
  });
  const { allocation } = await world.client.call('allocation-create', { body: { pool: 'own' } });
  return world.waitFor('a machine to be given up', async () => {
    const { node_id } = await world.client.call('allocation-get', { params: { id: allocation.allocation_id } });
    return node_id && (await nodeOf(world, node_id)).status === 'failed' ? node_id : undefined;
  });
}

async function watchEveryRule(world: World): Promise<{ watched: Watched[]; end(): Promise<void> }> {
  await externalPool(world, 'watched', { mode: 'observe', heartbeat: patient, budgets });
  await externalPool(world, 'hushed', { mode: 'observe', heartbeat });
  await externalPool(world, 'equipped', {
    mode: 'observe',
    heartbeat: patient,
    requires: [{ name: 'gpu-driver', check: 'nvidia-smi -L' }],
  });
  const failed = await failedMachine(world);
  const { node: expected } = await world.client.call('node-create', { body: { pool: 'watched', name: 'expected' } });
  const stuck = await joinMachine(world, 'watched', 'stuck');
  const stuckBeats = keepBeating(stuck, beatEvery, 'starting');
  const mute = await joinMachine(world, 'watched', 'mute');
  const leaving = await joinMachine(world, 'watched', 'leaving');
  await leaving.beat('ready');
  await leaving.beat('stopping');
  const silent = await joinMachine(world, 'hushed', 'silent');
  await silent.beat('ready');
  const ill = await joinMachine(world, 'watched', 'ill');
  await ill.beat('ready');
  const bare = await joinMachine(world, 'equipped', 'bare');
  const missing = { results: [{ name: 'gpu-driver', ok: false, detail: 'no device' }] };
  await bare.call('agent-prerequisites', { body: missing });

  const bareBeats = keepBeating(bare, beatEvery);
  let over = false;
  const illBeats = (async () => {
    while (!over) {
      await ill.call('agent-heartbeat', { body: { error_rate: 0.9 } });
      await pause(systemClock, beatEvery * 1000);
    }
  })();
  return {
    watched: [
      { id: expected.node_id, status: 'provisioning', rule: 'provision-deadline', to: 'failed' },
      { id: stuck.node_id, status: 'starting', rule: 'stuck-starting', to: 'ready' },
      { id: mute.node_id, status: 'starting', rule: 'start-deadline', to: 'failed' },
      { id: leaving.node_id, status: 'offline', rule: 'offline-deadline', to: 'failed' },
      { id: silent.node_id, status: 'ready', rule: 'liveness', to: 'offline' },
      { id: ill.node_id, status: 'ready', rule: 'degraded', to: 'degraded' },
      { id: bare.node_id, status: 'starting', rule: 'prerequisite-missing', to: 'failed' },
      { id: failed, status: 'failed', rule: 'rescue-over', to: 'cleaning' },
    ],
    async end() {
      over = true;
      await Promise.all([stuckBeats.stop(), bareBeats.stop(), illBeats]);
    },
  };
}

/** Recorded by the transition on a report; the other rules are sweeps and count their records. */
const byTransition = ['degraded', 'prerequisite-missing'];

/**
 * Once, and once more for each gap in ingest, which moves deadlines and repeats the record for the
 * new one.
 */
async function expectOnce(world: World, times: number, what: string): Promise<void> {
  const gaps = await world.ledger.count('select 1 from ingest_gaps');
  expect(times, `${what}, with ${gaps} gaps`).toBeGreaterThanOrEqual(1);
  expect(times, `${what}, with ${gaps} gaps`).toBeLessThanOrEqual(1 + gaps);
}

async function expectCounted(world: World, watched: Watched[]): Promise<void> {
  const { items } = await world.client.call('sweep-list', {});
  const metrics = await callRoute(world.server.url, 'metrics-get', {}, { bearer: world.server.token });
  for (const { rule } of watched.filter((each) => !byTransition.includes(each.rule))) {
    const sweep = items.find((each) => each.name === rule);
    expect(sweep, rule).toMatchObject({ decided: 0, held: 0 });
    await expectOnce(world, sweep?.would_have ?? 0, `${rule} is counted once`);
    const line = new RegExp(`^slipway_sweep_would_have_total\\{sweep="${rule}"\\} (\\d+)$`, 'm');
    await expectOnce(world, Number(line.exec(metrics.text)?.[1]), `the metric counts ${rule} once`);
  }
}

async function expectExplained(world: World, { id, rule, to, status }: Watched): Promise<void> {
  const explanation = await world.client.call('node-explain', { params: { id } });
  expect(explanation).toMatchObject({ status, would_have: { rule, to } });
  expect(explanation.because.evidence.map((fact) => fact.kind)).toContain('node.would_have');
  const step = explanation.next.find((each) => each.then.includes(`by ${rule}`));
  if (step) expect(step.then).toMatch(/^would be .*; the pool is observe-only$/);
}

scenario({
  name: 'an observe-only pool',
  async story(world) {
    const { watched, end } = await watchEveryRule(world);
    try {
      const first: Node[] = [];
      for (const each of watched) first.push(await waitForRecord(world, each));
      await world.expectNever('something changed', quietSeconds, async () => {
        const nodes = await Promise.all(watched.map(({ id }) => nodeOf(world, id)));
        return nodes.some((node, i) => node.status_since !== first[i]?.status_since);
      });
      for (const each of watched) {
        await expectOnce(world, await countRecords(world, each.id, each.rule), `${each.rule} is recorded once`);
        await expectExplained(world, each);
      }
      await expectCounted(world, watched);
      expect(await world.ledger.count(`select 1 from operations where kind = 'node-retire'`)).toBe(0);
    } finally {
      await end();
    }
  },
  counters: [
    {
      broken: 'rules that ignore the mode',
      composition: withDeciders(() => ({ isObserveOnly: () => false })),
      fails: /changed, and should not/,
    },
  ],
});

scenario({
  name: 'an observed machine that goes silent twice',
  async story(world) {
    await externalPool(world, 'watched', { mode: 'observe', heartbeat });
    const fleet = await beatingFleet(world, 'watched', 1, beatEvery);
    const [machine] = fleet.machines;
    const id = machine?.node_id ?? '';
    try {
      for (const times of [1, 2]) {
        const before = await countRecords(world, id, 'liveness');
        fleet.hush(fleet.machines);
        await world.waitFor(
          `silence number ${times} to be recorded`,
          async () => (await countRecords(world, id, 'liveness')) > before,
        );
        fleet.speak(fleet.machines);
        const { at } = (await nodeOf(world, id)).would_have ?? { at: '' };
        await world.waitFor('it to beat again', async () => ((await nodeOf(world, id)).last_seen_at ?? '') > at);
      }
      expect((await nodeOf(world, id)).status).toBe('ready');
    } finally {
      await fleet.end();
    }
  },
  counters: [
    {
      broken: 'rules that ignore the mode',
      composition: withDeciders(() => ({ isObserveOnly: () => false })),
      fails: /waited .* for silence number 1 to be recorded/,
    },
  ],
});

scenario({
  name: 'a pool that leaves observe mode',
  async story(world) {
    const document = { heartbeat, budgets: { provision_seconds: short } };
    await externalPool(world, 'watched', { ...document, mode: 'observe' });
    const { node } = await world.client.call('node-create', { body: { pool: 'watched', name: 'expected' } });
    const silent = await joinMachine(world, 'watched', 'silent');
    await silent.beat('ready');
    await waitForRecord(world, { id: node.node_id, status: 'provisioning', rule: 'provision-deadline', to: 'failed' });
    await waitForRecord(world, { id: silent.node_id, status: 'ready', rule: 'liveness', to: 'offline' });
    await externalPool(world, 'watched', { ...document, mode: 'enforce' });
    await waitForNode(world, node.node_id, 'failed');
    await waitForNode(world, silent.node_id, 'offline');
  },
  counters: [
    {
      broken: 'rules that keep observing',
      composition: withDeciders(() => ({ isObserveOnly: (_cause, trigger) => trigger === 'rule' })),
      fails: /waited .* for node to be failed/,
      patience_seconds: 10,
    },
  ],
});
