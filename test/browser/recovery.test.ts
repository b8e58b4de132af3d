/**
 * An operator recovers machines, allocations and residue in the console. Each action shows whether
 * it is allowed, why not, and what it will do.
 */
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { Composition } from '../../src/server/opening.ts';
import { type BeatingFleet, beatingFleet } from '../scenarios/support/fleet.ts';
import type { ScenarioContext } from '../scenarios/support/scenario.ts';
import { type StubbornMachines, stubbornMachines, stubbornPool } from '../scenarios/support/stubborn-machines.ts';
import { allocate, release, waitForStatus, waitForStatuses } from '../support/allocations.ts';
import { type DatabaseConnection, openDatabaseConnection } from '../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { expectAccessible, navigateTo, openBrowser, openPage, signIn, statusBadge } from './support/console.ts';

/** The set-up starts a browser and two fleets, which takes long on a busy machine. */
const setUpSeconds = 180;
vi.setConfig({ testTimeout: 180_000, hookTimeout: 3 * setUpSeconds * 1000 });

const composition: Composition = {
  environment: (built) => ({
    ...built,
    drift: { ...built.drift, every_seconds: 0.5 },
    // The sweep must not touch residue before the test does.
    orphans: { ...built.orphans, every_seconds: 3600 },
  }),
};
/** The stale time is so long that no machine goes offline on a loaded host. */
const heartbeat = { interval_seconds: 3, stale_after_seconds: 600 };

let server: TestServer;
let browser: Browser;
/** All tests use one page, which signs in once. */
let page: Page;
let pageErrors: string[];
let db: DatabaseConnection;
let fleet: BeatingFleet;
let stubbornFleet: StubbornMachines;
/** An allocation whose release failed and is forced later. */
let forcedId: string;
/** Allocations whose releases failed and are retried together. */
let stuckIds: string[];
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer({ composition }), openBrowser()]);
  const { client } = server;
  db = await openDatabaseConnection(server.database_url);
  await client.call('pool-put', { params: { pool: 'pier' }, body: { driver: 'external', heartbeat } });
  fleet = await beatingFleet({ server, client } as ScenarioContext, 'pier', 3, 0.5);
  await client.call('node-act', { params: { id: nodeIdOf(2), action: 'quarantine' }, body: { reason: 'set aside' } });
  await client.call('pool-put', { params: { pool: 'stubborn' }, body: stubbornPool });
  stubbornFleet = await stubbornMachines(server, 'stubborn', 3);
  const allocationIds = await Promise.all(Array.from({ length: 3 }, () => allocate(client, 'stubborn')));
  await waitForStatuses(client, allocationIds, 'active', setUpSeconds);
  await Promise.all(allocationIds.map((id) => release(client, id)));
  await waitForStatuses(client, allocationIds, 'release_failed', setUpSeconds);
  [forcedId = '', ...stuckIds] = allocationIds;
  await insertResidueAndEvidence();
  ({ page, pageErrors } = await openPage(browser));
  await signIn(page, server, `/nodes/${nodeIdOf(0)}`);
});
afterEach(() => expect(pageErrors).toEqual([]));
afterAll(async () => {
  await browser?.close();
  await fleet?.end();
  await db?.close();
  await server?.stop();
  await stubbornFleet?.end();
});

/** Inserts the residue of an unknown machine, and frozen evidence about a machine of the fleet. */
async function insertResidueAndEvidence(): Promise<void> {
  await db.query(
    `insert into residue (residue_id, driver, pool, kind, resource, node_id, node_instance_id, why, reason, since)
     values ('res_1', 'local', 'local', 'directory', $1, 'node_1', 'inst_1', 'orphan', 'nobody owns it', now())`,
    [join(server.nodes_dir, 'inst_1')],
  );
  await db.query(
    `insert into evidence (at, layer, kind, summary, data, node_id)
     values (now(), 'node', 'evidence.frozen', 'what the agent knew was kept', $2, $1)`,
    [nodeIdOf(2), { processes: [{ pid: 4711, state: 'D', rss_bytes: 5_242_880, command: 'train --epochs 9' }] }],
  );
}

const goTo = (path: string) => navigateTo(page, path);

const nodeIdOf = (i: number): string => fleet.machines[i]?.node_id ?? '';
const dialogOf = (page: Page) => page.getByRole('dialog');
const previewIn = (page: Page) => dialogOf(page).getByRole('region', { name: 'What will happen' });

async function chooseAction(page: Page, action: RegExp): Promise<void> {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** Checks that the button is disabled without a reason, enters one and confirms. */
async function confirm(page: Page, button: string, reason: string): Promise<void> {
  const dialog = dialogOf(page);
  const confirmButton = dialog.getByRole('button', { name: button });
  expect(await confirmButton.isDisabled()).toBe(true);
  await dialog.getByLabel('Reason').fill(reason);
  await confirmButton.click();
  await dialog.waitFor({ state: 'detached' });
}

it('drains, quarantines and reactivates a machine, and previews each action', async () => {
  await statusBadge(page, 'ready').waitFor();

  // The keyboard reaches every action. An action that is not allowed says why and does nothing.
  await page.getByRole('button', { name: 'Actions' }).focus();
  await page.keyboard.press('Enter');
  const waitForFocus = (name: RegExp) => page.locator(':focus').and(page.getByRole('menuitem', { name })).waitFor();
  await waitForFocus(/^Drain/);
  await page.keyboard.press('ArrowDown');
  await waitForFocus(/^(?!Drain)/);
  const undrain = page.getByRole('menuitem', { name: /^Undrain/ });
  await undrain.getByText('It is ready; this needs draining.').waitFor();
  await undrain.click({ force: true });
  expect(await dialogOf(page).count()).toBe(0);
  await expectAccessible(page, 'the open menu');
  await page.getByRole('menuitem', { name: /^Drain/ }).click();

  await previewIn(page).getByText('draining').waitFor();
  await previewIn(page)
    .getByText(/it is quarantined\.$/)
    .waitFor();
  await dialogOf(page).getByLabel('Retire the machine').click();
  await previewIn(page)
    .getByText(/it is torn down for good\.$/)
    .waitFor();
  await dialogOf(page).getByLabel('Quarantine the machine').click();
  await previewIn(page)
    .getByText(/it is quarantined\.$/)
    .waitFor();
  await expectAccessible(page, 'the dialog');
  expect((await server.client.call('node-get', { params: { id: nodeIdOf(0) } })).status).toBe('ready');
  // A preview only reads, so it leaves no evidence of a request.
  const requestFacts = `select 1 from evidence where node_id = $1 and kind = 'request.served'`;
  expect(await db.countRows(requestFacts, [nodeIdOf(0)])).toBe(0);
  await confirm(page, 'Drain', 'its fan is loud');

  await statusBadge(page, 'quarantined').waitFor();
  await page.getByRole('button', { name: 'Reactivate' }).click();
  await confirm(page, 'Reactivate', 'the fan was cleaned');
  await statusBadge(page, 'ready').waitFor();

  await chooseAction(page, /^Quarantine/);
  await previewIn(page).getByText('quarantined', { exact: true }).waitFor();
  await confirm(page, 'Quarantine', 'it is loud again');
  await statusBadge(page, 'quarantined').waitFor();
  await page
    .getByText(/it is loud again/)
    .first()
    .waitFor();
});

it('shows both sides of a drift, on the drift page and on the machine’s page, and repairs or accepts it', async () => {
  await goTo('/drift');
  await page.getByText('Both sides agree').waitFor();
  for (const [i, status] of [
    [1, 'degraded'],
    [2, 'failed'],
  ] as const)
    await db.query('update nodes set status = $2 where node_id = $1', [nodeIdOf(i), status]);
  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Drift/ });
  await place.getByText('2 open').waitFor();
  const finding = page.getByRole('listitem').filter({ has: page.locator(`[href$="${nodeIdOf(2)}"]`) });
  await finding.getByRole('button', { name: /^Repair/ }).click();
  await previewIn(page)
    .getByText(/the row is set to what its evidence says.*quarantined/i)
    .waitFor();
  await confirm(page, 'Repair', 'nobody gave it up');
  await place.getByText('1 open').waitFor();
  expect((await server.client.call('node-get', { params: { id: nodeIdOf(2) } })).status).toBe('quarantined');
  await page.getByRole('heading', { name: 'Its row contradicts its evidence.' }).waitFor();
  await page.getByRole('heading', { name: 'Our record' }).waitFor();
  await page.getByRole('heading', { name: 'Found', exact: true }).waitFor();
  await expectAccessible(page, 'drift');
  await page.getByRole('link', { name: /^node/ }).click();
  await page.getByRole('heading', { name: 'Findings on this machine' }).waitFor();
  await page.getByRole('button', { name: /^Accept/ }).click();
  await previewIn(page)
    .getByText(/the row stays as it is/i)
    .waitFor();
  await confirm(page, 'Accept', 'I wrote it myself');
  await page.getByRole('heading', { name: 'Findings on this machine' }).waitFor({ state: 'detached' });
  await goTo('/drift?status=accepted');
  await page.getByText(/by admin: I wrote it myself/).waitFor();
});

it('lists what needs a person on the start page, worst first, and moves a release that gave up to the top', async () => {
  await page.goto(server.url);
  const section = (name: RegExp) => page.getByRole('region', { name });
  await section(/^Releases being retried: 3/).waitFor();
  const readTitles = async () => (await page.locator('section h2').allInnerTexts()).map((text) => text.trim());
  const expectedTitles = ['Quarantined machines', 'Left behind', 'Releases being retried'];
  expect((await readTitles()).filter((title) => expectedTitles.includes(title))).toEqual(expectedTitles);
  await section(/^Quarantined machines/)
    .getByText('It is loud again.')
    .waitFor();
  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /^Attention/ });
  const itemCount = Number(/\d+/.exec(await place.innerText())?.[0]);
  // A release that has used up its tries moves to the top.
  await db.query(`update allocations set release_tries = 9 where allocation_id = $1`, [forcedId]);
  // A direct write to the database sends no event, so the page must be reloaded.
  await page.goto(`${server.url}/attention`);
  await section(/^Releases that gave up: 1/).waitFor();
  expect((await readTitles())[0]).toBe('Releases that gave up');
  await server.client.call('node-act', {
    params: { id: nodeIdOf(1), action: 'quarantine' },
    body: { reason: 'to be seen at once' },
  });
  await section(/^Quarantined machines/)
    .getByText('To be seen at once.')
    .waitFor();
  await place.getByText(String(itemCount + 1)).waitFor();
  await expectAccessible(page, 'attention');
  // On a phone the navigation is behind a button, but the number of items is visible.
  const desktopSize = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page
    .getByRole('banner')
    .getByRole('link', { name: `Attention: ${itemCount + 1}` })
    .waitFor();
  if (desktopSize) await page.setViewportSize(desktopSize);
});

it('forces a release that gave up, and lists its leftovers as residue until they are adopted or deleted', async () => {
  await goTo(`/allocations/${forcedId}`);
  await statusBadge(page, 'release failed').waitFor();
  await page.getByText('Next try').waitFor();
  const allocation = await server.client.call('allocation-get', { params: { id: forcedId } });
  await goTo(`/nodes/${allocation.node_id}`);
  const statusPanel = page.getByRole('region', { name: 'Status', exact: true });
  await statusPanel.getByText('release failed', { exact: true }).waitFor();
  await statusPanel.getByText(/^Release failed at step/).waitFor();
  await goTo(`/allocations/${forcedId}`);
  await page.getByRole('button', { name: 'Retry release' }).waitFor();
  await goTo('/attention');
  await page
    .getByRole('region', { name: /^Releases that gave up/ })
    .getByRole('button', { name: /^Force release/ })
    .click();
  await previewIn(page).getByText('released', { exact: true }).waitFor();
  await previewIn(page)
    .getByText(/residue/)
    .waitFor();
  await confirm(page, 'Force release', 'the tenant cannot wait');
  await page.getByRole('region', { name: /^Releases that gave up/ }).waitFor({ state: 'detached' });
  const { node_id } = await server.client.call('allocation-get', { params: { id: forcedId } });
  await goTo(`/nodes/${node_id}`);
  await page.getByRole('link', { name: 'residue', exact: true }).waitFor();
  // The next step is the same as on Attention, and the residue is one click away.
  await page.getByRole('button', { name: 'Retire', exact: true }).waitFor();
  await statusPanel.getByRole('link', { name: /^res_/ }).waitFor();

  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Residue/ });
  await place.getByText('2 open').waitFor();
  await place.click();
  const orphan = page.getByRole('row').filter({ hasText: 'nobody owns it' });
  await orphan.getByRole('button', { name: /^Delete/ }).click();
  await previewIn(page)
    .getByText(/is destroyed by the driver local and proven gone; this cannot be undone\.$/)
    .waitFor();
  await confirm(page, 'Delete', 'nobody misses it');
  await orphan.waitFor({ state: 'detached' });
  const row = page.getByRole('row').filter({ hasText: 'the tenant cannot wait' });
  await row.getByText('Its release was forced by admin.').waitFor();
  await expectAccessible(page, 'residue');
  await row.getByRole('button', { name: /^Verify/ }).click();
  await confirm(page, 'Verify', 'somebody went there');
  // While the check runs, no other action is allowed.
  await until('the check of the residue to end', async () => {
    const { items } = await server.client.call('operation-list', { query: { kind: 'residue-verify' } });
    return items.length > 0 && items.every(({ finished_at }) => finished_at !== null);
  });
  await row.getByRole('button', { name: /^Adopt/ }).click();
  await confirm(page, 'Adopt', 'kept for the investigation');
  await page.getByText('Nothing is left behind').waitFor();
  await page.getByRole('button', { name: 'adopted' }).click();
  await page.waitForURL(/status=adopted/);
  await page.getByText('kept for the investigation').waitFor();
});

it('retries all failed releases in one operation, and shows its progress', async () => {
  await goTo('/allocations?status=release_failed');
  await page.getByRole('button', { name: 'Recover all…' }).click();
  await previewIn(page)
    .getByText(/^2 allocations; first .*\. Canary 1, then at most 60 a minute/)
    .waitFor();
  await expectAccessible(page, 'the recovery dialog');
  stubbornFleet.relent();
  await confirm(page, 'Recover all', 'the disks are empty again');
  await page.waitForURL(/\/operations\//);
  await page.getByRole('heading', { name: 'Fleet recover' }).waitFor();
  await statusBadge(page, 'succeeded').waitFor();
  await Promise.all(stuckIds.map((id) => waitForStatus(server.client, id, 'released')));
});

it('shows a viewer no actions', async () => {
  const viewer = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  const { page, context } = await openPage(browser);
  await page.goto(`${server.url}/nodes/${nodeIdOf(2)}`);
  await page.getByLabel('Token', { exact: true }).fill(viewer.token ?? '');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await statusBadge(page, 'quarantined').waitFor();
  expect(await page.getByRole('button', { name: /Actions|Reactivate/ }).count()).toBe(0);
  await navigateTo(page, '/allocations?status=release_failed');
  await page.getByRole('heading', { name: 'Allocations' }).waitFor();
  expect(await page.getByRole('button', { name: /Recover/ }).count()).toBe(0);
  await context.close();
});

it('re-enrolls a machine with a token that is shown only once', async () => {
  await goTo(`/nodes/${nodeIdOf(2)}?tab=diagnostics`);
  await statusBadge(page, 'quarantined').waitFor();
  await page.getByText('4711  D  5 MiB  train --epochs 9').waitFor();
  await chooseAction(page, /^Re-enroll/);
  const dialog = dialogOf(page);
  await dialog.getByLabel('Reason').fill('its disk was replaced');
  await dialog.getByRole('button', { name: 'Re-enroll' }).click();
  await dialog.getByText('The token is not shown again.').waitFor();
  const command = await dialog.locator('code').innerText();
  expect(command).toMatch(/^SLIPWAY_ENROLLMENT_TOKEN=\S+ slipway agent --server http/);
  await expectAccessible(page, 'the token');
  // Neither Escape nor a click outside closes the dialog and loses the token.
  await page.keyboard.press('Escape');
  await page.mouse.click(5, 5);
  expect(await dialog.isVisible()).toBe(true);
  await dialog.getByRole('button', { name: 'Finish' }).click();
  await dialog.waitFor({ state: 'detached' });
  await statusBadge(page, 'provisioning').waitFor();
  const token = /=(\S+)/.exec(command)?.[1] ?? '';
  expect(await page.content()).not.toContain(token);
});
