/**
 * Most of a pool goes silent: a person sees it on every page, learns why, and decides about one
 * machine and about all.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { now, secondsBetween, secondsLater, systemClock } from '../../src/base/clock.ts';
import type { Node } from '../../src/contract/node.ts';
import { openDatabase } from '../../src/store/pg/database.ts';
import { recordStagedBoots } from '../../src/store/testing/staged-boots.ts';
import { type BeatingFleet, beatingFleet } from '../scenarios/support/fleet.ts';
import type { ScenarioContext } from '../scenarios/support/scenario.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import {
  expectNoBarriers,
  navigateTo,
  openBrowser,
  signIn,
  statusOf,
  visit,
  waitUntilLive,
} from './support/console.ts';

/**
 * From the first silence to the last verdict, with several pages checked by axe, on a loaded
 * machine.
 */
const wholeIncidentMs = 300_000;

/** Long enough that a loaded server does not record a gap between two heartbeats. */
const heartbeat = { interval_seconds: 3, stale_after_seconds: 9 };
const patience = { seconds: 120 };
const poolSize = 10;
const silent = 8;

let server: TestServer;
let browser: Browser;
let fleet: BeatingFleet;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await server.client.call('pool-put', { params: { pool: 'harbour' }, body: { driver: 'external', heartbeat } });
  await recordSlowerBoots();
  fleet = await beatingFleet({ server, client: server.client } as ScenarioContext, 'harbour', poolSize, 0.5);
});
afterAll(async () => {
  await browser?.close();
  await fleet?.end();
  await server?.stop();
});

/** Writes past boots to the store; declaring the pool again makes the rule run. */
async function recordSlowerBoots(): Promise<void> {
  const declare = (provision_seconds: number) =>
    server.client.call('pool-put', {
      params: { pool: 'gpu' },
      body: { driver: 'external', budgets: { provision_seconds } },
    });
  await declare(600);
  const db = openDatabase({ url: server.database_url });
  const from = (hours: number) => secondsLater(now(systemClock), hours * 3600);
  const stages = { 'image-pull': 107, 'set-up': 270 };
  // The last boot ended just now.
  const slower = { from: from(-40), every_seconds: (40 * 3600 - 500) / 39, stages: { ...stages, 'image-pull': 230 } };
  await recordStagedBoots(db, { pool: 'gpu', count: 100, from: from(-140), every_seconds: 3600, stages });
  await recordStagedBoots(db, { pool: 'gpu', count: 40, after: 100, ...slower });
  await db.close();
  await declare(720);
}

/** Shown before anything goes wrong, with the stage to look at. */
async function checkSlowerBoots(page: Page): Promise<void> {
  const slower = page.getByRole('region', { name: 'Slower boots: 1' });
  await slower
    .getByText(/Boots take 1\.3 times as long since .*The stage image-pull went from 11\d s to 24\d s/)
    .waitFor();
  await slower.getByRole('button', { name: 'Accept boots of gpu' }).waitFor();
  await slower.getByRole('link', { name: /^what a budget of \d+ s would do$/ }).click();
  await page.getByRole('heading', { name: 'Boots of gpu' }).waitFor();
}

const heldNodes = async (): Promise<Node[]> =>
  (await server.client.call('node-list', { query: { held: true, limit: 100 } })).items;
const nodeNow = (id: string) => server.client.call('node-get', { params: { id } });
const banner = (page: Page) => page.getByRole('status').filter({ hasText: 'held back' });
const place = (page: Page) =>
  page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Supervision/ });

async function confirm(page: Page, button: string, reason: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  const confirming = dialog.getByRole('button', { name: button });
  expect(await confirming.isDisabled()).toBe(true);
  await dialog.getByLabel('Reason').fill(reason);
  await confirming.click();
  await dialog.waitFor({ state: 'detached' });
}

/** Checks the text on a held machine's page. */
async function checkHeldNode(page: Page, { node_id }: Node): Promise<void> {
  await page.goto(`${server.url}/nodes/${node_id}`);
  const because = page.getByRole('region', { name: 'Because' });
  await because.getByText('Still ready only because a verdict is held back: liveness would make it offline.').waitFor();
  await because.getByText(/too many machines turned bad at once: \d+ of 10 machines/).waitFor();
  await because.getByText(/Last seen/).waitFor();
  expect(await because.innerText()).not.toMatch(/supervised by its heartbeat|Up and serving/);
  await expectNoBarriers(page, 'a held node');
}

async function decideOne(page: Page, { node_id }: Node): Promise<void> {
  await page.getByRole('button', { name: 'Apply the held verdict' }).click();
  await confirm(page, 'Apply the held verdict', 'it burned down');
  await statusOf(page, 'offline').waitFor();
  const because = page.getByRole('region', { name: 'Because' });
  await because.getByText('Waits for a heartbeat').waitFor();
  await because.getByText('→ failed, by offline-deadline').waitFor();
  const before = await nodeNow(node_id);
  await page.getByRole('button', { name: 'Extend deadline' }).click();
  await confirm(page, 'Extend deadline', 'the fire brigade is still there');
  const after = await nodeNow(node_id);
  const given = secondsBetween(new Date(before.deadline_at ?? ''), new Date(after.deadline_at ?? ''));
  expect(given).toBeGreaterThanOrEqual(600);
  await because.getByText(/the fire brigade is still there/).waitFor();
}

async function resumeRest(page: Page): Promise<void> {
  await place(page).click();
  await page.getByRole('button', { name: 'Resume liveness in pool harbour' }).click();
  await confirm(page, 'Resume', 'the pier is really gone');
  await page
    .getByText(/^Nothing is held back/)
    .first()
    .waitFor();
  await page.getByRole('row', { name: /resumed .* by admin/ }).waitFor();
}

it('is seen, understood and decided, without a reload', { timeout: wholeIncidentMs }, async () => {
  const { page, context, complaints } = await visit(browser);
  await signIn(page, server, '/fleet');
  await page.locator('[data-node]').first().waitFor();
  await waitUntilLive(page);
  expect(await banner(page).count()).toBe(0);
  expect(await place(page).innerText()).not.toContain('held');

  fleet.silence(fleet.machines.slice(0, silent));
  const held = await until(
    'every silent machine to be decided on or held',
    async () => {
      const nodes = await Promise.all(fleet.machines.slice(0, silent).map(({ node_id }) => nodeNow(node_id)));
      const undecided = nodes.filter((node) => node.held === null && node.status === 'ready');
      return undecided.length === 0 ? nodes.filter((node) => node.held !== null) : undefined;
    },
    patience,
  );
  await banner(page).waitFor();
  const [one] = held;
  if (!one) throw new Error('no machine is held');
  await place(page).getByText(`${held.length} held`).waitFor();
  await expectNoBarriers(page, 'the fleet with a hold');

  // The start page shows it above everything else, with the button that resumes it.
  await page.getByRole('link', { name: /^Attention/ }).click();
  const incident = page.getByRole('region', { name: 'Held by the brake: 1' });
  await incident.getByRole('button', { name: 'Resume liveness in pool harbour' }).waitFor();
  expect(await page.locator('section h2').first().innerText()).toBe('Held by the brake');
  await page.getByRole('link', { name: 'Fleet' }).click();

  await banner(page).getByRole('link').click();
  await page.getByRole('heading', { name: 'Supervision' }).waitFor();
  await page.getByRole('heading', { name: 'liveness in pool harbour' }).waitFor();
  await page.getByRole('row', { name: /^liveness/ }).waitFor();
  await expectNoBarriers(page, 'supervision with a hold');

  await checkHeldNode(page, one);
  await decideOne(page, one);
  await resumeRest(page);

  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByRole('region', { name: new RegExp(`^Pool harbour: .*${silent} offline`) }).waitFor();
  expect(await banner(page).count()).toBe(0);
  expect(await heldNodes()).toEqual([]);
  // A silent machine is never shown as well, even when nothing is held any more.
  await page.getByRole('link', { name: /^Attention/ }).click();
  const silence = page.getByRole('region', { name: `Silent machines: ${silent}` });
  await silence.getByText('unless it sends a heartbeat').first().waitFor();
  await silence.getByRole('button', { name: `Probe ${one.name}` }).waitFor();
  await checkSlowerBoots(page);
  expect(complaints).toEqual([]);
  await context.close();
});

it('shows maintenance at once, on a phone and in dark colours, and offers no actions to viewers', {
  timeout: wholeIncidentMs,
}, async () => {
  const made = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: 'dark' } as const;
  const { page, context } = await visit(browser, phone);
  await page.goto(`${server.url}/supervision`);
  await page.getByLabel('Token', { exact: true }).fill(made.token ?? '');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Supervision' }).waitFor();
  await waitUntilLive(page);
  await server.client.call('maintenance-put', {
    params: { name: 'dredging' },
    body: { pool: 'harbour', ends_at: '2099-01-01T00:00:00Z', reason: 'a dredger' },
  });
  await page.getByText('dredging', { exact: true }).waitFor();
  await page.getByText('a dredger').waitFor();
  // The two remaining machines go silent now: a window holds what it covers.
  fleet.silence(fleet.machines);
  await until('the window to hold a machine', async () => (await heldNodes()).length > 0, patience);
  await page.getByRole('banner').getByRole('link', { name: /held/ }).waitFor();
  expect(await page.getByRole('button', { name: /Resume/ }).count()).toBe(0);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  await expectNoBarriers(page, 'supervision on a phone in the dark', 'color-contrast');
  const [one] = await heldNodes();
  await navigateTo(page, `/nodes/${one?.node_id}`);
  await page.getByText(/a maintenance window covers it: maintenance dredging/).waitFor();
  expect(await page.getByRole('button', { name: /Apply|Extend/ }).count()).toBe(0);
  await expectNoBarriers(page, 'a held node in the dark', 'color-contrast');
  await context.close();
});
