/**
 * Every recovery as a person does it: which actions are open and why not, what they will do, and
 * what becomes of the machine.
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
import { expectNoBarriers, navigateTo, openBrowser, signIn, statusOf, visit } from './support/console.ts';

/** The browser and two fleets start at once, which takes long on a busy machine. */
const setUpSeconds = 180;
vi.setConfig({ testTimeout: 180_000, hookTimeout: 3 * setUpSeconds * 1000 });

const composition: Composition = {
  environment: (built) => ({
    ...built,
    drift: { ...built.drift, every_seconds: 0.5 },
    // Only the person in the test looks at residue.
    orphans: { ...built.orphans, every_seconds: 3600 },
  }),
};
/** Long enough that a loaded machine does not fail any for silence. */
const heartbeat = { interval_seconds: 3, stale_after_seconds: 600 };

let server: TestServer;
let browser: Browser;
/** One person, signed in once, for all tests. */
let page: Page;
let complaints: string[];
let db: DatabaseConnection;
let fleet: BeatingFleet;
let stubborn: StubbornMachines;
let forced: string;
let stuck: string[];
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer({ composition }), openBrowser()]);
  const { client } = server;
  db = await openDatabaseConnection(server.database_url);
  await client.call('pool-put', { params: { pool: 'pier' }, body: { driver: 'external', heartbeat } });
  fleet = await beatingFleet({ server, client } as ScenarioContext, 'pier', 3, 0.5);
  await client.call('node-act', { params: { id: machine(2), action: 'quarantine' }, body: { reason: 'set aside' } });
  await client.call('pool-put', { params: { pool: 'stubborn' }, body: stubbornPool });
  stubborn = await stubbornMachines(server, 'stubborn', 3);
  const held = await Promise.all(Array.from({ length: 3 }, () => allocate(client, 'stubborn')));
  await waitForStatuses(client, held, 'active', setUpSeconds);
  await Promise.all(held.map((id) => release(client, id)));
  await waitForStatuses(client, held, 'release_failed', setUpSeconds);
  [forced = '', ...stuck] = held;
  await leaveResidue();
  ({ page, complaints } = await visit(browser));
  await signIn(page, server, `/nodes/${machine(0)}`);
});
afterEach(() => expect(complaints).toEqual([]));
afterAll(async () => {
  await browser?.close();
  await fleet?.end();
  await db?.close();
  await server?.stop();
  await stubborn?.end();
});

/** Residue of a machine on this host from long ago, and of another one that was collected. */
async function leaveResidue(): Promise<void> {
  await db.query(
    `insert into residue (residue_id, driver, pool, kind, resource, node_id, node_instance_id, why, reason, since)
     values ('res_1', 'local', 'local', 'directory', $1, 'node_1', 'inst_1', 'orphan', 'nobody owns it', now())`,
    [join(server.nodes_dir, 'inst_1')],
  );
  await db.query(
    `insert into evidence (at, layer, kind, summary, data, node_id)
     values (now(), 'node', 'evidence.frozen', 'what the agent knew was kept', $2, $1)`,
    [machine(2), { processes: [{ pid: 4711, state: 'D', rss_bytes: 5_242_880, command: 'train --epochs 9' }] }],
  );
}

const goTo = (path: string) => navigateTo(page, path);

const machine = (i: number): string => fleet.machines[i]?.node_id ?? '';
const dialogOf = (page: Page) => page.getByRole('dialog');
const foreseen = (page: Page) => dialogOf(page).getByRole('region', { name: 'What will happen' });

async function choose(page: Page, action: RegExp): Promise<void> {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** The confirmation needs a reason. */
async function confirm(page: Page, button: string, reason: string): Promise<void> {
  const dialog = dialogOf(page);
  const confirming = dialog.getByRole('button', { name: button });
  expect(await confirming.isDisabled()).toBe(true);
  await dialog.getByLabel('Reason').fill(reason);
  await confirming.click();
  await dialog.waitFor({ state: 'detached' });
}

it('drains, quarantines and reactivates a machine, each with a preview', async () => {
  await statusOf(page, 'ready').waitFor();

  // A closed action says why and cannot be pressed; the keyboard reaches all of them.
  await page.getByRole('button', { name: 'Actions' }).focus();
  await page.keyboard.press('Enter');
  const focused = (name: RegExp) => page.locator(':focus').and(page.getByRole('menuitem', { name })).waitFor();
  await focused(/^Drain/);
  await page.keyboard.press('ArrowDown');
  await focused(/^(?!Drain)/);
  const undrain = page.getByRole('menuitem', { name: /^Undrain/ });
  await undrain.getByText('It is ready; this needs draining.').waitFor();
  await undrain.click({ force: true });
  expect(await dialogOf(page).count()).toBe(0);
  await expectNoBarriers(page, 'the open menu');
  await page.getByRole('menuitem', { name: /^Drain/ }).click();

  await foreseen(page).getByText('draining').waitFor();
  await foreseen(page)
    .getByText(/it is quarantined\.$/)
    .waitFor();
  await dialogOf(page).getByLabel('Retire the machine').click();
  await foreseen(page)
    .getByText(/it is torn down for good\.$/)
    .waitFor();
  await dialogOf(page).getByLabel('Quarantine the machine').click();
  await foreseen(page)
    .getByText(/it is quarantined\.$/)
    .waitFor();
  await expectNoBarriers(page, 'the dialog');
  expect((await server.client.call('node-get', { params: { id: machine(0) } })).status).toBe('ready');
  // A preview only reads and leaves nothing on the timeline.
  const requestFacts = `select 1 from evidence where node_id = $1 and kind = 'request.served'`;
  expect(await db.countRows(requestFacts, [machine(0)])).toBe(0);
  await confirm(page, 'Drain', 'its fan is loud');

  await statusOf(page, 'quarantined').waitFor();
  await page.getByRole('button', { name: 'Reactivate' }).click();
  await confirm(page, 'Reactivate', 'the fan was cleaned');
  await statusOf(page, 'ready').waitFor();

  await choose(page, /^Quarantine/);
  await foreseen(page).getByText('quarantined', { exact: true }).waitFor();
  await confirm(page, 'Quarantine', 'it is loud again');
  await statusOf(page, 'quarantined').waitFor();
  await page
    .getByText(/it is loud again/)
    .first()
    .waitFor();
});

it('shows drift with both sides, on its own page and on the machine’s, and repairs or accepts it', async () => {
  await goTo('/drift');
  await page.getByText('Both sides agree').waitFor();
  for (const [i, status] of [
    [1, 'degraded'],
    [2, 'failed'],
  ] as const)
    await db.query('update nodes set status = $2 where node_id = $1', [machine(i), status]);
  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Drift/ });
  await place.getByText('2 open').waitFor();
  const found = page.getByRole('listitem').filter({ has: page.locator(`[href$="${machine(2)}"]`) });
  await found.getByRole('button', { name: /^Repair/ }).click();
  await foreseen(page)
    .getByText(/the row is set to what its evidence says.*quarantined/i)
    .waitFor();
  await confirm(page, 'Repair', 'nobody gave it up');
  await place.getByText('1 open').waitFor();
  expect((await server.client.call('node-get', { params: { id: machine(2) } })).status).toBe('quarantined');
  await page.getByRole('heading', { name: 'Its row contradicts its evidence.' }).waitFor();
  await page.getByRole('heading', { name: 'Our record' }).waitFor();
  await page.getByRole('heading', { name: 'Found', exact: true }).waitFor();
  await expectNoBarriers(page, 'drift');
  await page.getByRole('link', { name: /^node/ }).click();
  await page.getByRole('heading', { name: 'Findings on this machine' }).waitFor();
  await page.getByRole('button', { name: /^Accept/ }).click();
  await foreseen(page)
    .getByText(/the row holds as it stands/i)
    .waitFor();
  await confirm(page, 'Accept', 'I wrote it myself');
  await page.getByRole('heading', { name: 'Findings on this machine' }).waitFor({ state: 'detached' });
  await goTo('/drift?status=accepted');
  await page.getByText(/by admin: I wrote it myself/).waitFor();
});

it('lists what needs a person on the start page, worst first, and reorders it as it gets worse', async () => {
  await page.goto(server.url);
  const shelf = (name: RegExp) => page.getByRole('region', { name });
  await shelf(/^Releases being retried: 3/).waitFor();
  const shelves = async () => (await page.locator('section h2').allInnerTexts()).map((words) => words.trim());
  const order = ['Quarantined machines', 'Left behind', 'Releases being retried'];
  expect((await shelves()).filter((title) => order.includes(title))).toEqual(order);
  await shelf(/^Quarantined machines/)
    .getByText('It is loud again.')
    .waitFor();
  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /^Attention/ });
  const counted = Number(/\d+/.exec(await place.innerText())?.[0]);
  // Once its tries are used up, a release moves to the top.
  await db.query(`update allocations set release_tries = 9 where allocation_id = $1`, [forced]);
  // A direct write notifies no one, so the page is reloaded.
  await page.goto(`${server.url}/attention`);
  await shelf(/^Releases that gave up: 1/).waitFor();
  expect((await shelves())[0]).toBe('Releases that gave up');
  await server.client.call('node-act', {
    params: { id: machine(1), action: 'quarantine' },
    body: { reason: 'to be seen at once' },
  });
  await shelf(/^Quarantined machines/)
    .getByText('To be seen at once.')
    .waitFor();
  await place.getByText(String(counted + 1)).waitFor();
  await expectNoBarriers(page, 'attention');
  // On a phone the navigation is behind a button, but the number of items is visible.
  const desk = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page
    .getByRole('banner')
    .getByRole('link', { name: `Attention: ${counted + 1}` })
    .waitFor();
  if (desk) await page.setViewportSize(desk);
});

it('forces a release that gave up, and lists possible leftovers as residue until they are adopted or destroyed', async () => {
  await goTo(`/allocations/${forced}`);
  await statusOf(page, 'release failed').waitFor();
  await page.getByText('Next try').waitFor();
  const machineOf = await server.client.call('allocation-get', { params: { id: forced } });
  await goTo(`/nodes/${machineOf.node_id}`);
  const because = page.getByRole('region', { name: 'Because' });
  await because.getByText('release failed', { exact: true }).waitFor();
  await because.getByText(/^Release failed at step/).waitFor();
  await goTo(`/allocations/${forced}`);
  await page.getByRole('button', { name: 'Retry release' }).waitFor();
  await goTo('/attention');
  await page
    .getByRole('region', { name: /^Releases that gave up/ })
    .getByRole('button', { name: /^Force release/ })
    .click();
  await foreseen(page).getByText('released', { exact: true }).waitFor();
  await foreseen(page)
    .getByText(/residue/)
    .waitFor();
  await confirm(page, 'Force release', 'the tenant cannot wait');
  await page.getByRole('region', { name: /^Releases that gave up/ }).waitFor({ state: 'detached' });
  const { node_id } = await server.client.call('allocation-get', { params: { id: forced } });
  await goTo(`/nodes/${node_id}`);
  await page.getByRole('link', { name: 'residue', exact: true }).waitFor();
  // The next step is the same as on Attention, and the residue is one click away.
  await page.getByRole('button', { name: 'Retire', exact: true }).waitFor();
  await because.getByRole('link', { name: /^res_/ }).waitFor();

  const place = page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: /Residue/ });
  await place.getByText('2 open').waitFor();
  await place.click();
  const orphan = page.getByRole('row').filter({ hasText: 'nobody owns it' });
  await orphan.getByRole('button', { name: /^Delete/ }).click();
  await foreseen(page)
    .getByText(/is destroyed by the driver local and proven gone; this cannot be undone\.$/)
    .waitFor();
  await confirm(page, 'Delete', 'nobody misses it');
  await orphan.waitFor({ state: 'detached' });
  const row = page.getByRole('row').filter({ hasText: 'the tenant cannot wait' });
  await row.getByText('Its release was forced by admin.').waitFor();
  await expectNoBarriers(page, 'residue');
  await row.getByRole('button', { name: /^Verify/ }).click();
  await confirm(page, 'Verify', 'somebody went there');
  // While the check runs, no other action is open.
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

it('retries all failed releases at once, and shows their progress', async () => {
  await goTo('/allocations?status=release_failed');
  await page.getByRole('button', { name: 'Recover all…' }).click();
  await foreseen(page)
    .getByText(/^2 allocations; first .*\. Canary 1, then at most 60 a minute/)
    .waitFor();
  await expectNoBarriers(page, 'the recovery dialog');
  stubborn.relent();
  await confirm(page, 'Recover all', 'the disks are empty again');
  await page.waitForURL(/\/operations\//);
  await page.getByRole('heading', { name: 'Fleet recover' }).waitFor();
  await statusOf(page, 'succeeded').waitFor();
  await Promise.all(stuck.map((id) => waitForStatus(server.client, id, 'released')));
});

it('offers no actions to viewers', async () => {
  const made = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  const { page, context } = await visit(browser);
  await page.goto(`${server.url}/nodes/${machine(2)}`);
  await page.getByLabel('Token', { exact: true }).fill(made.token ?? '');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await statusOf(page, 'quarantined').waitFor();
  expect(await page.getByRole('button', { name: /Actions|Reactivate/ }).count()).toBe(0);
  await navigateTo(page, '/allocations?status=release_failed');
  await page.getByRole('heading', { name: 'Allocations' }).waitFor();
  expect(await page.getByRole('button', { name: /Recover/ }).count()).toBe(0);
  await context.close();
});

it('re-enrols a machine with a token that is shown once', async () => {
  await goTo(`/nodes/${machine(2)}?tab=diagnostics`);
  await statusOf(page, 'quarantined').waitFor();
  await page.getByText('4711  D  5 MiB  train --epochs 9').waitFor();
  await choose(page, /^Re-enroll/);
  const dialog = dialogOf(page);
  await dialog.getByLabel('Reason').fill('its disk was replaced');
  await dialog.getByRole('button', { name: 'Re-enroll' }).click();
  await dialog.getByText('The token is not shown again.').waitFor();
  const line = await dialog.locator('code').innerText();
  expect(line).toMatch(/^SLIPWAY_ENROLLMENT_TOKEN=\S+ slipway agent --server http/);
  await expectNoBarriers(page, 'the token');
  // Pressing Escape does not lose it.
  await page.keyboard.press('Escape');
  await page.mouse.click(5, 5);
  expect(await dialog.isVisible()).toBe(true);
  await dialog.getByRole('button', { name: 'Finish' }).click();
  await dialog.waitFor({ state: 'detached' });
  await statusOf(page, 'provisioning').waitFor();
  const token = /=(\S+)/.exec(line)?.[1] ?? '';
  expect(await page.content()).not.toContain(token);
});
