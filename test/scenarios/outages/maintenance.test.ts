/**
 * Negative verdicts on machines in a maintenance window are held until the window ends, and each
 * machine shows the hold.
 */
import { expect, vi } from 'vitest';
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { Maintenance } from '../../../src/contract/supervision/supervision.ts';
import type * as Windows from '../../../src/store/rows/maintenance.ts';
import { callRoute, expectProblem } from '../../api/support/calls.ts';
import { type BeatingFleet, beatingFleet } from '../support/fleet.ts';
import { causesOf, externalPool, nodeOf, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken, withoutSweep } from '../support/scenario.ts';

type Parts = Pick<typeof Windows, 'listActiveWindows'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/rows/maintenance.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    listActiveWindows: (...args) => (brokenParts.listActiveWindows ?? originalModule.listActiveWindows)(...args),
  };
});

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 3 };
const beatEvery = 0.3;
const shortSeconds = 1;
/** A window that ends during the story, after its machine went silent and was held. */
const endsByItselfSeconds = 5 * heartbeat.stale_after_seconds;
const hour = 3600;

const inSeconds = (seconds: number) => secondsLater(now(systemClock), seconds).toISOString();

type WindowScope = Partial<Pick<Maintenance, 'pool' | 'zone' | 'labels' | 'starts_at' | 'ends_at'>>;

const declareWindow = (
  context: ScenarioContext,
  name: string,
  { pool, zone, labels, starts_at, ends_at }: WindowScope,
): Promise<Maintenance> =>
  context.client.call('maintenance-put', {
    params: { name },
    body: {
      ...(pool && { pool }),
      ...(zone && { zone }),
      ...(labels && { labels }),
      ...(starts_at && { starts_at }),
      ends_at: ends_at ?? inSeconds(hour),
      reason: 'new racks',
    },
  });

const waitForHold = (context: ScenarioContext, id: string, rule: string): Promise<Node> =>
  context.waitFor(`${rule} to be held`, async () => {
    const node = await nodeOf(context, id);
    return node.held?.rule === rule ? node : undefined;
  });

async function expectHeldBy(
  context: ScenarioContext,
  { node_id, held, status }: Node,
  window: Maintenance,
): Promise<void> {
  expect(held).toMatchObject({ kind: 'maintenance', hold: window.name, held_until: window.ends_at });
  expect(held?.reason).toBe(`maintenance ${window.name}`);
  const explanation = await context.client.call('node-explain', { params: { id: node_id } });
  expect(explanation).toMatchObject({ status, held, waiting_for: `the end of a hold: ${held?.reason}` });
  const items = await context.waitFor('the hold on the timeline', async () => {
    const query = { kind: 'node.held' };
    const page = await context.client.call('node-timeline', { params: { id: node_id }, query });
    return page.items.length > 0 ? page.items : undefined;
  });
  expect(items, 'recorded once').toHaveLength(1);
}

const waitForVerdict = (context: ScenarioContext, id: string, rule: string) =>
  context.waitFor(`${rule} to decide`, async () => (await causesOf(context, id)).includes(rule));

const endWindow = (context: ScenarioContext, name: string) =>
  context.client.call('maintenance-delete', { params: { name } });

async function startSilentMachine(
  context: ScenarioContext,
  pool: string,
  labels?: Record<string, string>,
): Promise<[string, BeatingFleet]> {
  const fleet = await beatingFleet(context, pool, 1, beatEvery, labels);
  fleet.silence(fleet.machines);
  return [fleet.machines[0]?.node_id ?? '', fleet];
}

scenario({
  name: 'machines under maintenance',
  async story(context) {
    await externalPool(context, 'racks', { heartbeat, budgets: { rescue_seconds: 4 * shortSeconds } });
    await externalPool(context, 'north', { heartbeat, zone: 'eu-1' });
    await externalPool(context, 'mixed', { heartbeat });
    const nodeOptions = { pool: 'racks', provision_timeout_seconds: shortSeconds };
    const { node: failed } = await context.client.call('node-create', { body: { ...nodeOptions, name: 'gone' } });
    await waitForNode(context, failed.node_id, 'failed');
    const byPool = await declareWindow(context, 'by-pool', { pool: 'racks' });
    const byZone = await declareWindow(context, 'by-zone', { zone: 'eu-1', ends_at: inSeconds(endsByItselfSeconds) });
    const byLabel = await declareWindow(context, 'by-label', { labels: { rack: 'r7' } });
    await declareWindow(context, 'not-yet', {
      pool: 'mixed',
      starts_at: inSeconds(hour),
      ends_at: inSeconds(2 * hour),
    });

    const { node: late } = await context.client.call('node-create', { body: { ...nodeOptions, name: 'late' } });
    const [inPool, inPoolBeats] = await startSilentMachine(context, 'racks');
    const [inZone, inZoneBeats] = await startSilentMachine(context, 'north');
    const labelledFleet = await beatingFleet(context, 'mixed', 1, beatEvery, { rack: 'r7' });
    labelledFleet.silence(labelledFleet.machines);
    const id = labelledFleet.machines[0]?.node_id ?? '';
    try {
      await expectHeldBy(context, await waitForHold(context, failed.node_id, 'rescue-over'), byPool);
      await expectHeldBy(context, await waitForHold(context, late.node_id, 'provision-deadline'), byPool);
      await expectHeldBy(context, await waitForHold(context, inPool, 'liveness'), byPool);
      await expectHeldBy(context, await waitForHold(context, inZone, 'liveness'), byZone);
      await expectHeldBy(context, await waitForHold(context, id, 'liveness'), byLabel);
      const brake = await context.client.call('brake-get', {});
      expect(brake.maintenance.map(({ name }) => name).sort()).toEqual(['by-label', 'by-pool', 'by-zone', 'not-yet']);
      expect(brake.holds, 'holds of the brake').toEqual([]);

      labelledFleet.resume(labelledFleet.machines);
      await context.waitFor(
        'the hold to be lifted from a machine that sends heartbeats again',
        async () => (await nodeOf(context, id)).held === null,
      );
      expect((await nodeOf(context, id)).status).toBe('ready');

      for (const [node, status] of [
        [failed.node_id, 'failed'],
        [late.node_id, 'provisioning'],
        [inPool, 'ready'],
      ])
        expect((await nodeOf(context, node ?? '')).status, 'the status during the window').toBe(status);
      await endWindow(context, 'by-pool');
      await waitForVerdict(context, inPool, 'liveness');
      await waitForVerdict(context, late.node_id, 'provision-deadline');
      await waitForVerdict(context, failed.node_id, 'rescue-over');

      const offline = await waitForNode(context, inZone, 'offline');
      expect(offline.status_since >= byZone.ends_at, 'a window holds until its end').toBe(true);
    } finally {
      await Promise.all([inPoolBeats.end(), inZoneBeats.end(), labelledFleet.end()]);
    }
  },
  counterTests: [
    {
      broken: 'rules that ignore windows',
      around: whileBroken(brokenParts, { listActiveWindows: async () => [] }),
      fails: /waited .* for rescue-over to be held/,
    },
    {
      broken: 'holds that stay after the machine sends heartbeats again',
      composition: withoutSweep('brake-watch'),
      fails: /waited .* for the hold to be lifted from a machine that sends heartbeats again/,
    },
  ],
});

scenario({
  name: 'machines outside the window',
  async story(context) {
    await externalPool(context, 'mixed', { heartbeat });
    await declareWindow(context, 'not-yet', {
      pool: 'mixed',
      starts_at: inSeconds(hour),
      ends_at: inSeconds(2 * hour),
    });
    await declareWindow(context, 'other-rack', { pool: 'mixed', labels: { rack: 'r7' } });
    await declareWindow(context, 'other-zone', { pool: 'mixed', zone: 'eu-1' });
    const [id, beats] = await startSilentMachine(context, 'mixed', { rack: 'r8' });
    try {
      const node = await waitForNode(context, id, 'offline');
      expect(node.verdict).toMatchObject({ rule: 'liveness' });
    } finally {
      await beats.end();
    }
  },
  counterTests: [
    {
      broken: 'windows that hold every machine',
      around: whileBroken(brokenParts, {
        listActiveWindows: async (_, at) => [
          {
            name: 'all',
            pool: null,
            zone: null,
            labels: {},
            starts_at: at,
            ends_at: secondsLater(at, hour),
            reason: 'all',
            actor: null,
            created_at: at,
          },
        ],
      }),
      fails: /waited .* for node to be offline/,
    },
  ],
});

scenario({
  name: 'invalid windows are refused, and an unknown window cannot be deleted',
  async story(context) {
    const put = (body: object) =>
      callRoute(
        context.server.url,
        'maintenance-put',
        { params: { name: 'w' }, body },
        { bearer: context.server.token },
      );
    const laterEnd = { ends_at: inSeconds(hour), reason: 'x' };
    for (const body of [
      laterEnd,
      { ...laterEnd, labels: {} },
      { pool: 'p', reason: 'x', ends_at: inSeconds(-shortSeconds) },
      { pool: 'p', reason: 'x', starts_at: inSeconds(2 * hour), ends_at: inSeconds(hour) },
      { pool: 'p', ends_at: laterEnd.ends_at },
      { pool: 'p', reason: 'x' },
    ])
      expectProblem(await put(body), 'invalid_request', JSON.stringify(body));
    expect((await context.client.call('maintenance-list', {})).items).toEqual([]);
    const unknownWindow = { params: { name: 'nobody-declared-it' } };
    const bearer = context.server.token;
    expectProblem(
      await callRoute(context.server.url, 'maintenance-delete', unknownWindow, { bearer }),
      'maintenance_not_found',
    );
  },
  counterTests: [],
});
