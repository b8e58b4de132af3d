/**
 * Most of a pool goes silent at once. The brake holds the verdicts, every view shows the hold, and
 * an operator can resume the rule.
 */
import { expect, vi } from 'vitest';
import { secondsBetween, secondsLater } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { Brake } from '../../../src/contract/supervision/supervision.ts';
import { defaultBrakePolicy, defaultBrakeSettings } from '../../../src/lifecycle/brake/brake.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { callRoute } from '../../api/support/calls.ts';
import { type BeatingFleet, beatingFleet, type FleetMachine } from '../support/fleet.ts';
import { externalPool, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken, withDeciders, withoutSweep } from '../support/scenario.ts';

const brokenParts = vi.hoisted(() => ({}) as { minNodes?: number });
vi.mock(import('../../../src/store/supervision/brake.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    readBrakeState: async (...args) => {
      const state = await originalModule.readBrakeState(...args);
      const { minNodes } = brokenParts;
      if (minNodes === undefined) return state;
      const policies = [...state.poolPolicies].map(
        ([name, policy]) => [name, { ...policy, min_nodes: minNodes }] as const,
      );
      return { ...state, poolPolicies: new Map(policies) };
    },
  };
});

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 2.5 };
const beatEvery = 0.3;
const poolSize = 20;
const silentCount = 12;
const mass_failure_seconds = 600;

const settings: Pick<Composition, 'environment'> = {
  environment: (built) => ({ ...built, brake: { ...built.brake, mass_failure_seconds } }),
};

const noBrake = withDeciders(() => ({ decideBrake: () => ({ allow: 'all' }) }));

const readBrake = (context: ScenarioContext): Promise<Brake> => context.client.call('brake-get', {});
type Hold = Brake['holds'][number];
const activeHolds = (brake: Brake) => brake.holds.filter((hold) => hold.ended_at === null && hold.resumed_at === null);

const readNodes = (context: ScenarioContext, machines: readonly FleetMachine[]): Promise<Node[]> =>
  Promise.all(machines.map(({ node_id }) => nodeOf(context, node_id)));

/**
 * Waits until every silent machine is offline or held. Machines that went silent before the mass
 * failure was detected are offline.
 */
const waitForVerdicts = (context: ScenarioContext, silent: readonly FleetMachine[]) =>
  context.waitFor('the silent machines to be held', async () => {
    const nodes = await readNodes(context, silent);
    // A busy host may hold verdicts because of its own gaps; those holds end by themselves.
    const heldNodes = nodes.filter((node) => node.held?.kind === 'mass-failure');
    const offline = nodes.filter((node) => node.status === 'offline');
    return heldNodes.length > 0 && heldNodes.length + offline.length === silent.length
      ? { held: heldNodes, offline }
      : undefined;
  });

const readMetrics = async (context: ScenarioContext): Promise<string> =>
  (await callRoute(context.server.url, 'metrics-get', {}, { bearer: context.server.token })).text;

/**
 * On a busy host some machines may have gone offline while the fleet came up and returned. The
 * brake rightly counts them too.
 */
async function countEarlierVerdicts(
  context: ScenarioContext,
  hold: Hold | undefined,
  offline: Node[],
): Promise<number> {
  const since = hold?.since ?? '';
  const zone = hold?.scope === 'zone' ? hold.name : null;
  const from = secondsLater(new Date(since), -defaultBrakeSettings.window_seconds);
  const [tally] = await context.db.query<{ verdicts: number }>(
    `select coalesce(sum(verdicts), 0)::int as verdicts from brake_tally
     where rule = 'liveness' and zone is not distinct from $3 and at > $1 and at < $2`,
    [from, since, zone],
  );
  return (tally?.verdicts ?? 0) - offline.length;
}

async function expectHoldShown(context: ScenarioContext, held: Node[], offline: Node[]): Promise<string> {
  const brake = await readBrake(context);
  expect(brake.holding).toBe(true);
  const [hold, ...more] = activeHolds(brake);
  expect(more, 'one failure is one incident').toEqual([]);
  const earlierVerdicts = await countEarlierVerdicts(context, hold, offline);
  expect(hold).toMatchObject({ kind: 'mass-failure', rule: 'liveness', effect: 'hold' });
  // A machine that went offline and returned counts twice, one that has not returned counts once.
  expect(hold?.population).toBeGreaterThanOrEqual(poolSize);
  expect(hold?.population).toBeLessThanOrEqual(poolSize + earlierVerdicts);
  expect(hold?.negative).toBeGreaterThanOrEqual(defaultBrakePolicy.min_nodes);
  expect(hold?.negative).toBeLessThanOrEqual(silentCount + earlierVerdicts);
  expect(secondsBetween(new Date(hold?.since ?? ''), new Date(hold?.held_until ?? ''))).toBe(mass_failure_seconds);
  expect(brake.held).toEqual([{ rule: 'liveness', kind: 'mass-failure', nodes: held.length }]);
  for (const node of held) {
    expect(node).toMatchObject({ status: 'ready', held: { rule: 'liveness', to: 'offline', kind: 'mass-failure' } });
    expect(node.held).toMatchObject({ hold: hold?.hold_id, held_until: hold?.held_until, reason: hold?.reason });
  }
  const heldList = await context.client.call('node-list', { query: { held: true, limit: 100 } });
  expect(heldList.items.map((node) => node.node_id).sort()).toEqual(held.map((node) => node.node_id).sort());
  const explanation = await context.client.call('node-explain', { params: { id: held[0]?.node_id ?? '' } });
  expect(explanation.held).toEqual(held[0]?.held);
  expect(explanation.waiting_for).toContain(hold?.reason);
  expect(explanation.next[0]?.then).toBe('liveness decides again');
  expect(explanation.next[0]?.at).toBe(hold?.held_until);
  expect(explanation.actions).toContainEqual(expect.objectContaining({ action: 'apply-held-verdict', open: true }));
  const metricsText = await readMetrics(context);
  expect(metricsText).toMatch(
    new RegExp(`^slipway_nodes_held\\{rule="liveness",kind="mass-failure"\\} ${held.length}$`, 'm'),
  );
  expect(metricsText).toMatch(/^slipway_brake_holds\{rule="liveness"\} 1$/m);
  return hold?.hold_id ?? '';
}

async function applyOne(context: ScenarioContext, id: string): Promise<void> {
  const act = (dry_run: boolean) =>
    context.client.call('node-act', {
      params: { id, action: 'apply-held-verdict' },
      body: { reason: 'it burned down', dry_run },
    });
  const prediction = await act(true);
  expect(prediction.predicts.status).toBe('offline');
  expect(prediction.node).toMatchObject({ status: 'ready', held: { rule: 'liveness' } });
  const { node } = await act(false);
  expect(node).toMatchObject({ status: 'offline', held: null, verdict: { rule: 'liveness' } });
  const appliedFact = await context.waitFor('the application on the timeline', async () => {
    const page = await context.client.call('node-timeline', { params: { id }, query: { kind: 'node.offline' } });
    return page.items[0];
  });
  expect(appliedFact.actor).not.toBeNull();
  expect(appliedFact.summary).toContain('it burned down');
}

/** Longer than the time after which the brake ends a hold without held machines. */
const longEnoughSeconds = 7;

const waitUntilAllServe = (context: ScenarioContext, machines: readonly FleetMachine[]) =>
  context.waitFor('the whole fleet to serve', async () =>
    (await readNodes(context, machines)).every((node) => node.status === 'ready'),
  );

async function checkOutage(context: ScenarioContext, fleet: BeatingFleet): Promise<void> {
  const silentMachines = fleet.machines.slice(0, silentCount);
  const serving = fleet.machines.slice(silentCount);
  await waitUntilAllServe(context, fleet.machines);
  fleet.silence(silentMachines);
  const { held, offline } = await waitForVerdicts(context, silentMachines);
  expect(offline.length).toBeLessThan(defaultBrakePolicy.min_nodes);
  const hold_id = await expectHoldShown(context, held, offline);

  const [appliedId, returnedId, alsoReturnedId, ...heldIds] = held.map((node) => node.node_id);
  await applyOne(context, appliedId ?? '');
  fleet.resume(silentMachines.filter(({ node_id }) => node_id === returnedId || node_id === alsoReturnedId));
  for (const id of [returnedId ?? '', alsoReturnedId ?? ''])
    await context.waitFor(
      'a machine that beats again to be released',
      async () => (await nodeOf(context, id)).held === null,
    );

  await context.expectNever('a held machine left the status ready', longEnoughSeconds, async () => {
    const nodes = await readNodes(context, [
      ...serving,
      ...silentMachines.filter(({ node_id }) => heldIds.includes(node_id)),
    ]);
    return nodes.some((node) => node.status !== 'ready');
  });
  const { allocation } = await context.client.call('allocation-create', { body: { pool: 'fleet' } });
  await context.waitFor('a machine to be allocated during the hold', async () => {
    const { status } = await context.client.call('allocation-get', { params: { id: allocation.allocation_id } });
    return status === 'active';
  });

  await context.client.call('brake-resume', { body: { hold_id, reason: 'the zone is really gone' } });
  for (const id of heldIds) {
    const node = await waitForNode(context, id, 'offline');
    expect(node.verdict).toMatchObject({ rule: 'liveness' });
  }
  expect(activeHolds(await readBrake(context)), 'holds after an operator resumed').toEqual([]);
  expect((await readNodes(context, serving)).every((node) => node.status === 'ready')).toBe(true);
}

scenario({
  name: 'most of a pool goes silent',
  settings,
  async story(context) {
    await externalPool(context, 'fleet', { heartbeat });
    const fleet = await beatingFleet(context, 'fleet', poolSize, beatEvery);
    try {
      await checkOutage(context, fleet);
    } finally {
      await fleet.end();
    }
  },
  counterTests: [
    { broken: 'no brake', composition: noBrake, fails: /waited .* for the silent machines to be held/ },
    {
      broken: 'held machines that are never released',
      composition: withoutSweep('brake-watch'),
      fails: /waited .* for a machine that beats again to be released/,
    },
  ],
});

/** Disables the brakes of the pools, so that only the brake of the zone acts. */
const disabledBrake = { fraction: 1, min_nodes: 1000 };

scenario({
  name: 'a zone that fails across its pools',
  settings,
  async story(context) {
    for (const pool of ['blue', 'green'])
      await externalPool(context, pool, { heartbeat, zone: 'eu-1', brake: disabledBrake });
    await externalPool(context, 'elsewhere', { heartbeat, zone: 'us-1' });
    const fleets = [
      await beatingFleet(context, 'blue', poolSize / 2, beatEvery),
      await beatingFleet(context, 'green', poolSize / 2, beatEvery),
    ];
    const loneFleet = await beatingFleet(context, 'elsewhere', 1, beatEvery);
    try {
      const silentMachines = fleets.flatMap((fleet) => fleet.machines.slice(0, silentCount / 2));
      await waitUntilAllServe(
        context,
        [...fleets, loneFleet].flatMap(({ machines }) => machines),
      );
      for (const fleet of [...fleets, loneFleet]) fleet.silence([...silentMachines, ...loneFleet.machines]);
      const { held, offline } = await waitForVerdicts(context, silentMachines);
      const [hold, ...more] = activeHolds(await readBrake(context));
      expect(more).toEqual([]);
      const population = poolSize + (await countEarlierVerdicts(context, hold, offline));
      expect(hold).toMatchObject({ scope: 'zone', name: 'eu-1', rule: 'liveness', population });
      for (const node of held) expect(node.held).toMatchObject({ hold: hold?.hold_id });
      await waitForNode(context, loneFleet.machines[0]?.node_id ?? '', 'offline');

      await context.client.call('brake-resume', { body: { reason: 'the zone is really gone' } });
      for (const { node_id } of silentMachines) await waitForNode(context, node_id, 'offline');
    } finally {
      await Promise.all([...fleets, loneFleet].map((fleet) => fleet.end()));
    }
  },
  counterTests: [{ broken: 'no brake', composition: noBrake, fails: /waited .* for the silent machines to be held/ }],
});

scenario({
  name: 'a small pool that goes silent entirely',
  settings,
  async story(context) {
    await externalPool(context, 'few', { heartbeat });
    const fleet = await beatingFleet(context, 'few', defaultBrakePolicy.min_nodes - 1, beatEvery);
    try {
      fleet.silence(fleet.machines);
      for (const { node_id } of fleet.machines) await waitForNode(context, node_id, 'offline');
      expect((await readBrake(context)).holds).toEqual([]);
    } finally {
      await fleet.end();
    }
  },
  counterTests: [
    {
      broken: 'a brake that acts on a single machine',
      around: whileBroken(brokenParts, { minNodes: 1 }),
      fails: /waited .* for node to be offline/,
    },
  ],
});
