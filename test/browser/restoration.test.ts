/**
 * After a restore every page says that the servers only observe. A person compares the machines and
 * lets the servers act.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { now, systemClock } from '../../src/base/clock.ts';
import { openDatabase } from '../../src/store/pg/database.ts';
import { declarePool } from '../../src/store/rows/pools.ts';
import { placeNodes } from '../../src/store/testing/placed-nodes.ts';
import { type TestDatabase, testDatabase } from '../support/database.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { expectAccessible, navigateTo, openBrowser, openPage, signIn, waitUntilLive } from './support/console.ts';

const silentNodes = 130;

let database: TestDatabase;
let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  database = await testDatabase();
  await recordRestore(database.url);
  [server, browser] = await Promise.all([inProcessServer({ database_url: database.url }), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
  await database?.drop();
});

/** Records a restore, silent machines, and one machine at the provider that has no node. */
async function recordRestore(url: string): Promise<void> {
  const db = openDatabase({ url });
  const at = now(systemClock);
  await db.transaction((tx) => declarePool(tx, 'harbour', { driver: 'external' }, at));
  await placeNodes(db, { pool: 'harbour', count: silentNodes, since: at });
  await db.query(`insert into restorations (restoration_id, sign, began_at) values ('r', 'backup_loaded', $1)`, [at]);
  await db.query(
    `insert into restoration_differences (
       restoration_id, source, kind, subject, driver, host, seen, first_seen_at, seen_at)
     values ('r', 'planted', 'came', 'slipway-box-7', 'docker', 'host-1',
       'the provider lists slipway-box-7, and no node is recorded for it', $1, $1)`,
    [at],
  );
  await db.close();
}

const headline = 'so the servers only observe.';

it('shows viewers the state without the button, and tenants nothing', async () => {
  const create = async (body: { name: string; role: 'viewer' | 'operator'; tenant?: string }) =>
    (await server.client.call('token-create', { body })).token ?? '';
  const guest = await openPage(browser);
  await signIn(guest.page, { ...server, token: await create({ name: 'guest', role: 'viewer' }) }, '/restoration');
  await guest.page.getByRole('region', { name: 'What differs' }).waitFor();
  await guest.page.getByText(headline).waitFor();
  expect(await guest.page.getByRole('button', { name: 'Let the servers act' }).count()).toBe(0);
  await guest.context.close();

  const tenant = await openPage(browser);
  const token = await create({ name: 'acme', role: 'operator', tenant: 'acme' });
  await signIn(tenant.page, { ...server, token }, '/allocations');
  await waitUntilLive(tenant.page);
  expect(await tenant.page.getByText(headline).count()).toBe(0);
  await tenant.context.close();
});

it('lists what differs, refuses changes, and lets the servers act with a reason', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/fleet');
  const banner = page.getByRole('status').filter({ hasText: headline });
  await banner.getByText('Nothing is launched, released or judged.').waitFor();

  // Other actions are refused with the problem `restoration_open`.
  await navigateTo(page, '/allocations?pool=harbour&dialog=allocate');
  const allocate = page.getByRole('dialog', { name: 'Allocate a machine' });
  await allocate.getByRole('button', { name: 'Allocate' }).click();
  await allocate.getByRole('alert').getByText('The database was restored, so this server only observes').waitFor();
  await page.keyboard.press('Escape');

  await banner.getByRole('link', { name: 'See what differs' }).click();
  await page.getByRole('heading', { name: 'Restoration', level: 1 }).waitFor();
  const kinds = page.getByRole('region', { name: 'What differs' });
  await kinds.getByRole('listitem').filter({ hasText: 'Maybe used' }).getByText(String(silentNodes)).waitFor();
  const rows = page.getByRole('table', { name: 'Machines that differ' }).getByRole('row');
  await rows.filter({ hasText: 'slipway-box-7' }).getByText('Unknown here').waitFor();
  expect(await rows.count()).toBe(101);
  await page.getByRole('button', { name: 'Show more' }).click();
  // The heading, the silent machines and the one that came.
  await rows.nth(silentNodes + 1).waitFor();
  await expectAccessible(page, 'the restoration');

  await page.getByRole('button', { name: 'Let the servers act' }).click();
  const dialog = page.getByRole('dialog', { name: 'Let the servers act' });
  await dialog.getByText(`First quarantined: ${silentNodes} nodes that may be used.`).waitFor();
  await dialog.getByLabel('No unconfirmed machine changed hands after the backup').check();
  // These machines are free, so only the other statement covers them.
  await dialog.getByText(`First quarantined: ${silentNodes} nodes that may be used.`).waitFor();
  await dialog.getByLabel('Nothing was allocated after the backup').check();
  await dialog.getByText('No node is quarantined.').waitFor();
  const force = dialog.getByLabel('Act although not every machine was compared');
  if (await force.isVisible()) await force.check();
  await dialog.getByLabel('Reason').fill('compared');
  await expectAccessible(page, 'the dialog that ends a restoration');
  await dialog.getByRole('button', { name: 'Let the servers act' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('The servers act', { exact: true }).waitFor();
  await banner.waitFor({ state: 'detached' });
  await page.getByRole('region', { name: 'What differed' }).waitFor();
  expect((await server.client.call('restoration-get', {})).newest?.end_reason).toBe('compared');
  expect(pageErrors).toEqual([]);
  await context.close();
});
