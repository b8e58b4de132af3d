/**
 * Most machines of a pool go silent and the brake holds their verdicts. The console shows this on
 * every page and explains it. An operator applies one verdict and then resumes the rule.
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
  expectAccessible,
  navigateTo,
  openBrowser,
  openPage,
  signIn,
  statusBadge,
  waitUntilLive,
} from './support/console.ts';

/** Enough for a whole incident and several axe checks on a loaded machine. */
const incidentTimeoutMs = 300_000;

/** The interval is so long that a loaded server records no ingest gap between heartbeats. */
const heartbeat = { interval_seconds: 3, stale_after_seconds: 9 };
const patience = { seconds: 120 };
const poolSize = 10;
const silentCount = 8;

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

/** Writes past boots to the store. Declaring the pool again makes the rule check them. */
async function recordSlowerBoots(): Promise<void> {
  const declare = (provision_seconds: number) =>
    server.client.call('pool-put', {
      params: { pool: 'gpu' },
      body: { driver: 'external', budgets: { provision_seconds } },
    });
  await declare(600);
  const db = openDatabase({ url: server.database_url });
  const hoursFromNow = (hours: number) => secondsLater(now(systemClock), hours * 3600);
  const stages = { 'image-pull': 107, 'set-up': 270 };
  // The last boot ended just now.
  const slowerBoots = {
    from: hoursFromNow(-40),
    every_seconds: (40 * 3600 - 500) / 39,
    stages: { ...stages, 'image-pull': 230 },
  };
  await recordStagedBoots(db, { pool: 'gpu', count: 100, from: hoursFromNow(-140), every_seconds: 3600, stages });
  await recordStagedBoots(db, { pool: 'gpu', count: 40, after: 100, ...slowerBoots });
  await db.close();
  await declare(720);
}

/** Checks that Attention names the slower stage and links to the boots of the pool. */
async function checkSlowerBoots(page: Page): Promise<void> {
  const section = page.getByRole('region', { name: 'Slower boots: 1' });
  await section
    .getByText(/Boots take 1\.3 times as long since .*The stage image-pull went from 11\d s to 24\d s/)
    .waitFor();
  await section.getByRole('button', { name: 'Accept boots of gpu' }).waitFor();
  await section.getByRole('link', { name: /^what a budget of \d+ s would do$/ }).click();
  await page.getByRole('heading', { name: 'Boots of gpu' }).waitFor();
}

const readHeldNodes = async (): Promise<Node[]> =>
  (await server.client.call('node-list', { query: { held: true, limit: 100 } })).items;
const readNode = (id: string) => server.client.call('node-get', { params: { id } });
const banner = (page: Page) => page.getByRole('status').filter({ hasText: 'held back' });
const supervisionLink = (page: Page) =>
  page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Supervision/ });

async function confirm(page: Page, button: string, reason: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  const confirmButton = dialog.getByRole('button', { name: button });
  expect(await confirmButton.isDisabled()).toBe(true);
  await dialog.getByLabel('Reason').fill(reason);
  await confirmButton.click();
  await dialog.waitFor({ state: 'detached' });
}

/** Checks that the page of a held machine explains why the machine is held. */
async function checkHeldNode(page: Page, { node_id }: Node): Promise<void> {
  await page.goto(`${server.url}/nodes/${node_id}`);
  const statusPanel = page.getByRole('region', { name: 'Status', exact: true });
  await statusPanel
    .getByText('Still ready only because a verdict is held back: liveness would make it offline.')
    .waitFor();
  await statusPanel.getByText(/too many machines turned bad at once: \d+ of 10 machines/).waitFor();
  await statusPanel.getByText(/Last seen/).waitFor();
  expect(await statusPanel.innerText()).not.toMatch(/supervised by its heartbeat|Up and serving/);
  await expectAccessible(page, 'a held node');
}

async function applyVerdictAndExtend(page: Page, { node_id }: Node): Promise<void> {
  await page.getByRole('button', { name: 'Apply the held verdict' }).click();
  await confirm(page, 'Apply the held verdict', 'it burned down');
  await statusBadge(page, 'offline').waitFor();
  const statusPanel = page.getByRole('region', { name: 'Status', exact: true });
  await statusPanel.getByText('Waits for a heartbeat').waitFor();
  await statusPanel.getByText('→ failed, by offline-deadline').waitFor();
  const nodeBefore = await readNode(node_id);
  await page.getByRole('button', { name: 'Extend deadline' }).click();
  await confirm(page, 'Extend deadline', 'the fire brigade is still there');
  const nodeAfter = await readNode(node_id);
  const addedSeconds = secondsBetween(new Date(nodeBefore.deadline_at ?? ''), new Date(nodeAfter.deadline_at ?? ''));
  expect(addedSeconds).toBeGreaterThanOrEqual(600);
  await statusPanel.getByText(/the fire brigade is still there/).waitFor();
}

async function resumeRule(page: Page): Promise<void> {
  await supervisionLink(page).click();
  await page.getByRole('button', { name: 'Resume liveness in pool harbour' }).click();
  await confirm(page, 'Resume', 'the pier is really gone');
  await page
    .getByText(/^Nothing is held back/)
    .first()
    .waitFor();
  await page.getByRole('row', { name: /resumed .* by admin/ }).waitFor();
}

it('shows and explains held verdicts without a reload, and applies them when an operator decides', {
  timeout: incidentTimeoutMs,
}, async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/fleet');
  await page.locator('[data-node]').first().waitFor();
  await waitUntilLive(page);
  expect(await banner(page).count()).toBe(0);
  expect(await supervisionLink(page).innerText()).not.toContain('held');

  fleet.silence(fleet.machines.slice(0, silentCount));
  const heldMachines = await until(
    'every silent machine to get a verdict or be held',
    async () => {
      const nodes = await Promise.all(fleet.machines.slice(0, silentCount).map(({ node_id }) => readNode(node_id)));
      const undecidedNodes = nodes.filter((node) => node.held === null && node.status === 'ready');
      return undecidedNodes.length === 0 ? nodes.filter((node) => node.held !== null) : undefined;
    },
    patience,
  );
  await banner(page).waitFor();
  const [heldNode] = heldMachines;
  if (!heldNode) throw new Error('no machine is held');
  await supervisionLink(page).getByText(`${heldMachines.length} held`).waitFor();
  await expectAccessible(page, 'the fleet with a hold');

  // The start page shows the hold at the top, with the button that resumes the rule.
  await page.getByRole('link', { name: /^Attention/ }).click();
  const holdSection = page.getByRole('region', { name: 'Held by the brake: 1' });
  await holdSection.getByRole('button', { name: 'Resume liveness in pool harbour' }).waitFor();
  expect(await page.locator('section h2').first().innerText()).toBe('Held by the brake');
  await page.getByRole('link', { name: 'Fleet' }).click();

  await banner(page).getByRole('link').click();
  await page.getByRole('heading', { name: 'Supervision' }).waitFor();
  await page.getByRole('heading', { name: 'liveness in pool harbour' }).waitFor();
  await page.getByRole('row', { name: /^liveness/ }).waitFor();
  await expectAccessible(page, 'supervision with a hold');

  await checkHeldNode(page, heldNode);
  await applyVerdictAndExtend(page, heldNode);
  await resumeRule(page);

  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByRole('region', { name: new RegExp(`^Pool harbour: .*${silentCount} offline`) }).waitFor();
  expect(await banner(page).count()).toBe(0);
  expect(await readHeldNodes()).toEqual([]);
  // Silent machines need attention even after the hold has ended.
  await page.getByRole('link', { name: /^Attention/ }).click();
  const silentSection = page.getByRole('region', { name: `Silent machines: ${silentCount}` });
  await silentSection.getByText('Waits for a heartbeat').first().waitFor();
  await silentSection.getByRole('button', { name: `Extend deadline ${heldNode.name}` }).waitFor();
  // These machines have no address, and their agents are gone, so nobody could answer a probe.
  expect(await silentSection.getByRole('button', { name: /^Probe/ }).count()).toBe(0);
  await checkSlowerBoots(page);
  expect(pageErrors).toEqual([]);
  await context.close();
});

it('shows a new maintenance window without a reload, on a phone in dark colours, and no actions to a viewer', {
  timeout: incidentTimeoutMs,
}, async () => {
  const viewer = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  const phoneOptions = { viewport: { width: 390, height: 844 }, hasTouch: true, colorScheme: 'dark' } as const;
  const { page, context } = await openPage(browser, phoneOptions);
  await page.goto(`${server.url}/supervision`);
  await page.getByLabel('Token', { exact: true }).fill(viewer.token ?? '');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Supervision' }).waitFor();
  await waitUntilLive(page);
  await server.client.call('maintenance-put', {
    params: { name: 'dredging' },
    body: { pool: 'harbour', ends_at: '2099-01-01T00:00:00Z', reason: 'a dredger' },
  });
  await page.getByText('dredging', { exact: true }).waitFor();
  await page.getByText('a dredger').waitFor();
  // The two remaining machines go silent, and the window holds their verdicts.
  fleet.silence(fleet.machines);
  await until('the window to hold a machine', async () => (await readHeldNodes()).length > 0, patience);
  await page.getByRole('banner').getByRole('link', { name: /held/ }).waitFor();
  expect(await page.getByRole('button', { name: /Resume/ }).count()).toBe(0);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  await expectAccessible(page, 'supervision on a phone in dark colours', 'color-contrast');
  const [heldNode] = await readHeldNodes();
  await navigateTo(page, `/nodes/${heldNode?.node_id}`);
  await page.getByText(/a maintenance window covers it: maintenance dredging/).waitFor();
  expect(await page.getByRole('button', { name: /Apply|Extend/ }).count()).toBe(0);
  await expectAccessible(page, 'a held node in dark colours', 'color-contrast');
  await context.close();
});
