/**
 * Takes the screenshots of the documentation from the real console. Every run takes them, to check
 * that they can still be taken. No two runs produce the same bytes, so only `UPDATE_IMAGES=1`
 * replaces the files in `docs/images/`.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { plantFleet } from '../../scripts/demo/planted-fleet.ts';
import { now, secondsLater, systemClock } from '../../src/base/clock.ts';
import type { TimedBoot } from '../../src/lifecycle/boots/survival.ts';
import { recordBoots } from '../../src/store/testing/recorded-boots.ts';
import { openTables } from '../api/support/tables.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, openPage, signIn, waitForTransitions, waitUntilLive } from './support/console.ts';

const inRoot = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const directory = inRoot(process.env.UPDATE_IMAGES ? 'docs/images' : 'reports/images');

const size = { width: 1280, height: 800 };

let server: TestServer;
let browser: Browser;
const stopFleet = new AbortController();
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await plantFleet(server, stopFleet.signal);
  await recordPastBoots('slow-boot');
  mkdirSync(directory, { recursive: true });
});
afterAll(async () => {
  stopFleet.abort();
  await browser?.close();
  // Some machines cannot be released, on purpose. Stopping the test server kills them.
  await server?.stop();
});

const days = 6;
const bootsADay = 40;

/**
 * Records several days of boots: most take about the same time, some are slow, and one a day times
 * out. The boots are the same on every run.
 */
async function recordPastBoots(pool: string): Promise<void> {
  const boots = Array.from({ length: bootsADay }, (_, i): TimedBoot => {
    const rank = ((i * 17) % bootsADay) + 0.5;
    const seconds = 110 * (rank / (bootsADay - rank)) ** 0.16;
    return i === 7
      ? { seconds: 720, outcome: 'timed_out' }
      : { seconds, outcome: i === 30 ? 'cancelled' : 'completed' };
  });
  const tables = await openTables(server.database_url);
  for (let day = 1; day <= days; day++)
    await recordBoots(tables, { pool, boots, until: secondsLater(now(systemClock), -86_400 * day) });
  await tables.close();
}

/** The screenshots show this data directory instead of the temporary one. */
const shownDirectory = '/var/lib/slipway';
const replaceDirectory = (directory: string) => `
  (() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      texts.currentNode.data = texts.currentNode.data.replaceAll(${JSON.stringify(directory)}, '${shownDirectory}');
    return document.body.innerText;
  })()
`;

async function takeScreenshot(page: Page, name: string): Promise<void> {
  const path = `${directory}/${name}.png`;
  expect(await page.evaluate<string>(replaceDirectory(server.data_dir)), name).not.toContain(tmpdir());
  await page.screenshot({ path, animations: 'disabled' });
  expect(existsSync(path)).toBe(true);
}

/** Returns the id of a node of the pool with this status. */
async function findNode(pool: string, status: 'failed' | 'ready'): Promise<string> {
  const { items } = await server.client.call('node-list', { query: { pool, status, limit: 1 } });
  return items[0]?.node_id ?? '';
}

async function findSlowAllocation(): Promise<string> {
  const { items } = await server.client.call('allocation-list', { query: { pool: 'slow-boot', limit: 1 } });
  return items[0]?.allocation_id ?? '';
}

it('takes a screenshot of each page in light and dark colours', async () => {
  const { page, context } = await openPage(browser, { colorScheme: 'light', viewport: size });
  await signIn(page, server, '/attention');
  const takeBoth = async (path: string, text: string, name: string) => {
    await page.goto(server.url + path);
    await page.getByText(text).first().waitFor();
    await waitUntilLive(page);
    // Both colours use the same page, because loading it costs more than drawing it again.
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await waitForTransitions(page);
      await takeScreenshot(page, `${name}-${colorScheme}`);
    }
  };
  await takeBoth('/attention', 'Releases that gave up', 'attention');
  await takeBoth(`/allocations/${await findSlowAllocation()}`, 'Waiting for it to register', 'progress');
  await takeBoth('/fleet?group=zone', 'releases failed', 'fleet');
  await takeBoth(`/nodes/${await findNode('web', 'ready')}`, 'boot stage', 'node');
  await takeBoth('/boots?pool=slow-boot&budget=150', 'Based on all', 'boots');
  await context.close();
});

it('takes a screenshot on a phone', async () => {
  const { page, context } = await openPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true });
  await signIn(page, server, '/fleet');
  await page
    .getByRole('banner')
    .getByRole('link', { name: /^Attention: / })
    .waitFor();
  await takeScreenshot(page, 'phone-light');
  await context.close();
});
