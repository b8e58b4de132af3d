/**
 * The console recovers by itself from an overloaded server, a reload, and a server that is killed
 * and restarted.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { openBrowser, openPage, releaseEverything, signIn, statusBadge, waitUntilLive } from './support/console.ts';

/** Enough to start a slow machine and a second server. */
const slowTestMs = 180_000;

let server: SpawnedServer;
let successor: SpawnedServer | undefined;
let browser: Browser;
let port: number;
beforeAll(async () => {
  port = await freePort();
  [server, browser] = await Promise.all([spawnServer({ port }), openBrowser()]);
  // The machine registers only when the test creates the gate file, which happens after the machine
  // has failed.
  const setup = `while [ ! -e ${gateFile()} ]; do sleep 0.2; done`;
  await server.client.call('pool-put', {
    params: { pool: 'late' },
    body: { driver: 'local', budgets: { provision_seconds: 12, rescue_seconds: 300 }, spec: { setup } },
  });
  await server.client.call('pool-put', {
    params: { pool: 'slow' },
    body: { driver: 'local', spec: { setup: 'sleep 12' } },
  });
});
afterAll(async () => {
  await browser?.close();
  if (successor) await releaseEverything(successor);
  await successor?.stop();
  await server?.stop();
});

const gateFile = () => join(server.data_dir, 'gate');

const readStep = async (page: Page): Promise<number> => {
  const text = await page.getByText(/^Step \d\/\d/).innerText();
  return Number(/^Step (\d)/.exec(text)?.[1]);
};

/** Records every width of the bar inside the page, because polling could miss some. */
const watchBar = `
  window.barWidths = [];
  new MutationObserver(() => {
    const width = Number(document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? NaN);
    if (width !== window.barWidths.at(-1) && !Number.isNaN(width)) window.barWidths.push(width);
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
`;

it('shows Attention as unknown while the server is busy, and recovers when the server answers', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  const listAddresses = /\/v1\/(nodes|allocations|pools)(\?|$)/;
  const busyProblem = { type: 'about:blank', code: 'server_busy', status: 429, title: 'Busy', detail: 'Busy' };
  const problem = { ...busyProblem, owner_layer: 'control_plane', correlation_id: 'c', retry_after_seconds: 1 };
  await page.route(listAddresses, (route) =>
    route.fulfill({ status: 429, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
  );
  await signIn(page, server, '/attention');
  await page.getByText('Unknown whether anything needs you: Busy; retrying every 1 s').waitFor();
  await page.getByRole('alert').getByText('Wait 1 s, then repeat.').waitFor();
  await page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: 'Attention ?' }).waitFor();
  await waitUntilLive(page);
  expect(await page.getByText('Nothing needs you').count()).toBe(0);
  // The stream stays connected throughout, so only a retry can notice the recovery.
  await page.unroute(listAddresses);
  await page.getByRole('heading', { name: 'All is well' }).waitFor();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  expect(pageErrors).toEqual([]);
  await context.close();
});

it('shows without a reload that a failed machine returned', { timeout: slowTestMs }, async () => {
  const { page, context, pageErrors } = await openPage(browser);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'late', name: 'tardy' } });
  await signIn(page, server, `/allocations/${allocation.allocation_id}`);
  await page.evaluate('window.sameDocument = true');
  await statusBadge(page, 'failed').waitFor();
  await page
    .getByText(/provisioning timed out/)
    .first()
    .waitFor();
  await writeFile(gateFile(), '');
  await statusBadge(page, 'active').waitFor();
  expect(await page.evaluate('window.sameDocument')).toBe(true);
  expect(pageErrors).toEqual([]);
  await context.close();
});

it('keeps the progress banner through a reload and a killed server, and ends with the final status', {
  timeout: slowTestMs,
}, async () => {
  const { page, context, pageErrors } = await openPage(browser);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'slow', name: 'patient' } });
  await signIn(page, server, `/allocations/${allocation.allocation_id}`);
  await page.getByText('Waiting for it to register').first().waitFor();
  const stepBefore = await readStep(page);

  await page.reload();
  await page.getByText('Waiting for it to register').first().waitFor();
  expect(await readStep(page)).toBeGreaterThanOrEqual(stepBefore);
  await waitUntilLive(page);
  await page.evaluate(watchBar);

  await server.kill();
  await page.getByText('The live stream is broken.').waitFor();
  expect(await readStep(page)).toBeGreaterThanOrEqual(stepBefore);

  // A page whose code was never loaded cannot open now. Each time it is requested, the console
  // keeps working and says why.
  for (const isSecondTry of [false, true]) {
    if (isSecondTry) await page.keyboard.press('g').then(() => page.keyboard.press('a'));
    await page.keyboard.press('g');
    await page.keyboard.press('u');
    await page.getByText('The server does not answer').first().waitFor();
    await page.getByRole('navigation', { name: 'Places' }).waitFor();
  }

  successor = await spawnServer({ beside: server, port });
  await waitUntilLive(page);
  await page.getByRole('heading', { name: 'Audit', level: 1 }).waitFor();
  await page.getByText('The server does not answer').waitFor({ state: 'detached' });
  expect(await page.evaluate('Array.isArray(window.barWidths)'), 'the page was not reloaded').toBe(true);
  await page.evaluate('history.go(-3)');
  await page.getByText('The live stream is broken.').waitFor({ state: 'detached' });
  await statusBadge(page, 'active').waitFor();
  const widths = await page.evaluate<number[]>('window.barWidths');
  expect(widths.length).toBeGreaterThan(0);
  expect(widths).toEqual(widths.toSorted((a, b) => a - b));
  expect(pageErrors).toEqual([]);
  await context.close();
});
