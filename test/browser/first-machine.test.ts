/** A new user allocates and releases a machine in the console and follows every step. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, openPage, releaseEverything, signIn, statusBadge, waitUntilLive } from './support/console.ts';

/** Enough for the whole life of a machine on a loaded host. */
const machineLifeMs = 180_000;

const directory = mkdtempSync(join(tmpdir(), 'slipway-workshop-'));
/** The machine waits for this file, so that the test can see the machine starting. */
const readyFile = join(directory, 'ready');

let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await server.client.call('pool-put', {
    params: { pool: 'workshop' },
    body: {
      driver: 'local',
      spec: {
        setup: `echo preparing the bench; until [ -e ${readyFile} ]; do sleep 0.1; done`,
        command: ['sh', '-c', 'echo the bench is free; exec sleep 600'],
        boot_stages: [{ name: 'unpack', seconds: 0.2 }],
      },
    },
  });
});
afterAll(async () => {
  writeFileSync(readyFile, '');
  await browser?.close();
  if (server) {
    await releaseEverything(server);
    await server.stop();
  }
  rmSync(directory, { recursive: true });
});

async function allocate(page: Page, pool: string, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Allocate' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox', { name: 'Pool' }).click();
  await page.getByRole('option', { name: new RegExp(`^${pool} `) }).click();
  await dialog.getByRole('textbox', { name: 'Name' }).fill(name);
  await dialog.getByRole('button', { name: 'Allocate' }).click();
  await page.getByRole('heading', { name }).waitFor();
}

it('updates every page in real time, from the allocation to the proof of removal', {
  timeout: machineLifeMs,
}, async () => {
  const { page, context, pageErrors } = await openPage(browser);
  // The start page shows that nothing needs attention, and lists what was checked.
  await signIn(page, server);
  await page.waitForURL(/\/attention$/);
  await page.getByRole('heading', { name: 'All is well' }).waitFor();
  await page.getByRole('list', { name: 'What was checked' }).getByText('sweeps run, no verdict is held back').waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('f');
  await page.getByText('No machines yet').waitFor();
  await waitUntilLive(page);

  // A second user only watches the fleet page.
  const watcher = await openPage(browser);
  const watcherPage = watcher.page;
  await signIn(watcherPage, server, '/fleet');
  await watcherPage.getByText('No machines yet').waitFor();
  await waitUntilLive(watcherPage);

  await allocate(page, 'workshop', 'my-box');
  const banner = page.getByRole('region', { name: /Progress of Node provision/ });
  await banner.getByText(/^Step \d\/\d/).waitFor();
  await banner.getByRole('listitem').filter({ hasText: 'Launching' }).waitFor();
  await page.getByText(/left to (come up|get a machine)/).waitFor();
  await watcherPage.locator('[data-node]').waitFor();
  writeFileSync(readyFile, '');

  await statusBadge(page, 'active').waitFor();
  await watcherPage.locator('[data-node][data-status="ready"]').waitFor();
  await banner.getByText('Node provision done').waitFor();
  expect(await banner.getByRole('progressbar').getAttribute('aria-valuenow')).toBe('100');

  await page.getByRole('link', { name: /^node_/ }).click();
  await statusBadge(page, 'ready').waitFor();
  await page.getByText('the node reported ready', { exact: true }).waitFor();

  await page.getByRole('tab', { name: 'Logs' }).click();
  await page.getByRole('log').getByText('the bench is free', { exact: true }).waitFor();
  await page.getByRole('tab', { name: 'Boot' }).click();
  await page.getByText('unpack', { exact: true }).waitFor();
  await page.getByRole('tab', { name: 'Timeline' }).click();
  await page.getByRole('button', { name: 'provider' }).click();
  await page.locator('summary', { hasText: /agent process \d+/ }).waitFor();
  expect(await page.locator('summary', { hasText: 'workflow' }).count()).toBe(0);
  expect(new URL(page.url()).searchParams.get('layer')).toBe('provider');

  await page.getByRole('button', { name: 'Release' }).click();
  await page.getByRole('dialog').getByLabel('Reason').fill('the work is done');
  await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
  await statusBadge(page, 'retired').waitFor();
  await page.getByText('Gone, with proof.').first().waitFor();
  await watcherPage.getByText('No machines yet').waitFor();

  // The log is still readable after the machine is gone.
  await page.getByRole('tab', { name: 'Logs' }).click();
  await page.getByRole('log').getByText('the bench is free', { exact: true }).waitFor();
  const audit = await server.client.call('audit-list', { query: { limit: 100 } });
  expect(JSON.stringify(audit.items)).toContain('the work is done');
  expect([...pageErrors, ...watcher.pageErrors]).toEqual([]);
  await Promise.all([context.close(), watcher.context.close()]);
});

it('filters machines by text and status, and keeps the filter in the URL', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/fleet');
  await allocate(page, 'local', 'lathe');
  await statusBadge(page, 'active').waitFor();

  await page.getByRole('link', { name: 'Fleet' }).click();
  const cells = page.getByRole('region', { name: /^Pool local/ }).locator('[data-node]');
  await cells.first().waitFor();
  await page.getByRole('searchbox').fill('nothing like it');
  await page.getByText('No machine matches').waitFor();
  await page.getByRole('button', { name: 'Show the whole fleet' }).click();
  await page.getByRole('button', { name: /^ready/ }).click();
  expect(await cells.count()).toBe(1);
  await page.getByText('Table', { exact: true }).click();
  const row = page.getByRole('row', { name: /^local/ });
  await row.getByText('ready').waitFor();
  expect(new URL(page.url()).search).toBe('?status=ready&view=table');
  await page.reload();
  await row.getByText('ready').waitFor();

  await page.getByRole('link', { name: 'Allocations' }).click();
  await page.getByRole('button', { name: 'Release lathe' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
  await page.getByRole('row', { name: /lathe/ }).getByText('released').waitFor();
  expect(pageErrors).toEqual([]);
  await context.close();
});

it('shows why an allocation was refused, and keeps the entered name', async () => {
  const { page, context } = await openPage(browser);
  await server.client.call('pool-put', { params: { pool: 'paused' }, body: { driver: 'local' } });
  await signIn(page, server, '/allocations?dialog=allocate');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox', { name: 'Pool' }).click();
  await page.getByRole('option', { name: /^paused/ }).click();
  await dialog.getByRole('textbox', { name: 'Name' }).fill('too-late');
  // The pool is paused after the dialog has listed it.
  await server.client.call('pool-put', { params: { pool: 'paused' }, body: { driver: 'local', paused: true } });
  await dialog.getByRole('button', { name: 'Allocate' }).click();
  await dialog.getByRole('alert').getByText('The pool is paused').waitFor();
  await dialog.getByRole('alert').getByText('Unpause the pool, or use another.').waitFor();
  expect(await dialog.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('too-late');
  await context.close();
});
