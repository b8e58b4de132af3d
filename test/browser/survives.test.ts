/**
 * The console survives an overloaded server, a reload, and a server that is killed and restarted.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { openBrowser, releaseEverything, signIn, statusOf, visit, waitUntilLive } from './support/console.ts';

/** Two servers start in it, and a slow machine. */
const wholeStoryMs = 180_000;

let server: SpawnedServer;
let successor: SpawnedServer | undefined;
let browser: Browser;
let port: number;
beforeAll(async () => {
  port = await freePort();
  [server, browser] = await Promise.all([spawnServer({ port }), openBrowser()]);
  // It registers when the test lets it, after its verdict; until then it has the budget of a
  // launch.
  const setup = `while [ ! -e ${gate()} ]; do sleep 0.2; done`;
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

const gate = () => join(server.data_dir, 'come');

const stepNow = async (page: Page): Promise<number> => {
  const words = await page.getByText(/^Step \d\/\d/).innerText();
  return Number(/^Step (\d)/.exec(words)?.[1]);
};

/** Records every width of the bar in the page itself, so that none is missed between two looks. */
const watchBar = `
  window.barWidths = [];
  new MutationObserver(() => {
    const now = Number(document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? NaN);
    if (now !== window.barWidths.at(-1) && !Number.isNaN(now)) window.barWidths.push(now);
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
`;

it('does not take a refusal for good news, and recovers by itself once the server answers', async () => {
  const { page, context, complaints } = await visit(browser);
  const lists = /\/v1\/(nodes|allocations|pools)(\?|$)/;
  const busy = { type: 'about:blank', code: 'server_busy', status: 429, title: 'Busy', detail: 'Busy' };
  const problem = { ...busy, owner_layer: 'control_plane', correlation_id: 'c', retry_after_seconds: 1 };
  await page.route(lists, (requests) =>
    requests.fulfill({ status: 429, contentType: 'application/problem+json', body: JSON.stringify(problem) }),
  );
  await signIn(page, server, '/attention');
  await page.getByText('Unknown whether anything needs you: Busy; retrying every 1 s').waitFor();
  await page.getByRole('alert').getByText('Wait 1 s, then repeat.').waitFor();
  await page.getByRole('navigation', { name: 'Places' }).getByRole('link', { name: 'Attention ?' }).waitFor();
  await waitUntilLive(page);
  expect(await page.getByText('Nothing needs you').count()).toBe(0);
  // The stream stays open throughout, so only the console's own retry can find out.
  await page.unroute(lists);
  await page.getByRole('heading', { name: 'All is well' }).waitFor();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  expect(complaints).toEqual([]);
  await context.close();
});

it('shows a failed machine return, without a reload', { timeout: wholeStoryMs }, async () => {
  const { page, context, complaints } = await visit(browser);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'late', name: 'tardy' } });
  await signIn(page, server, `/allocations/${allocation.allocation_id}`);
  await page.evaluate('window.sameDocument = true');
  await statusOf(page, 'failed').waitFor();
  await page
    .getByText(/provisioning timed out/)
    .first()
    .waitFor();
  await writeFile(gate(), '');
  await statusOf(page, 'active').waitFor();
  expect(await page.evaluate('window.sameDocument')).toBe(true);
  expect(complaints).toEqual([]);
  await context.close();
});

it('keeps the banner over a reload and a killed server, and ends with the true status', {
  timeout: wholeStoryMs,
}, async () => {
  const { page, context, complaints } = await visit(browser);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'slow', name: 'patient' } });
  await signIn(page, server, `/allocations/${allocation.allocation_id}`);
  await page.getByText('Waiting for it to register').first().waitFor();
  const before = await stepNow(page);

  await page.reload();
  await page.getByText('Waiting for it to register').first().waitFor();
  expect(await stepNow(page)).toBeGreaterThanOrEqual(before);
  await waitUntilLive(page);
  await page.evaluate(watchBar);

  await server.kill();
  await page.getByText('The live stream is stale.').waitFor();
  expect(await stepNow(page)).toBeGreaterThanOrEqual(before);

  // A page that was never loaded cannot open now; however often it is requested, the console stays
  // and says why.
  for (const again of [false, true]) {
    if (again) await page.keyboard.press('g').then(() => page.keyboard.press('a'));
    await page.keyboard.press('g');
    await page.keyboard.press('u');
    await page.getByText('The server does not answer').first().waitFor();
    await page.getByRole('navigation', { name: 'Places' }).waitFor();
  }

  successor = await spawnServer({ beside: server, port });
  await waitUntilLive(page);
  await page.getByRole('heading', { name: 'Audit', level: 1 }).waitFor();
  await page.getByText('The server does not answer').waitFor({ state: 'detached' });
  expect(await page.evaluate('Array.isArray(window.barWidths)'), 'the same document').toBe(true);
  await page.evaluate('history.go(-3)');
  await page.getByText('The live stream is stale.').waitFor({ state: 'detached' });
  await statusOf(page, 'active').waitFor();
  const widths = await page.evaluate<number[]>('window.barWidths');
  expect(widths.length).toBeGreaterThan(0);
  expect(widths).toEqual(widths.toSorted((a, b) => a - b));
  expect(complaints).toEqual([]);
  await context.close();
});
