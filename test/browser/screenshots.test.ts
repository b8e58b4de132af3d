/**
 * The screenshots of the documentation, taken from the real console. Every run takes them, so that
 * they keep working; `UPDATE_IMAGES=1` replaces those in `docs/images/`, because no two runs match
 * to the bit.
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
import { openBrowser, signIn, visit, waitForColours, waitUntilLive } from './support/console.ts';

const inRoot = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const directory = inRoot(process.env.UPDATE_IMAGES ? 'docs/images' : 'reports/images');

const size = { width: 1280, height: 800 };

let server: TestServer;
let browser: Browser;
const ended = new AbortController();
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await plantFleet(server, ended.signal);
  await recordPastBoots('slow-boot');
  mkdirSync(directory, { recursive: true });
});
afterAll(async () => {
  ended.abort();
  await browser?.close();
  // Some of its machines cannot be released, on purpose; they end with their server.
  await server?.stop();
});

const days = 6;
const bootsADay = 40;

/**
 * Days of boots that no test can wait for: most alike, some slow, a few that never came; the same
 * on every run.
 */
async function recordPastBoots(pool: string): Promise<void> {
  const boots = Array.from({ length: bootsADay }, (_, at): TimedBoot => {
    const rank = ((at * 17) % bootsADay) + 0.5;
    const seconds = 110 * (rank / (bootsADay - rank)) ** 0.16;
    return at === 7
      ? { seconds: 720, outcome: 'timed_out' }
      : { seconds, outcome: at === 30 ? 'cancelled' : 'completed' };
  });
  const tables = await openTables(server.database_url);
  for (let day = 1; day <= days; day++)
    await recordBoots(tables, { pool, boots, until: secondsLater(now(systemClock), -86_400 * day) });
  await tables.close();
}

/** The usual data directory replaces the one of this run in the pictures. */
const usualDirectory = '/var/lib/slipway';
const namePlaces = (given: string) => `
  (() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      texts.currentNode.data = texts.currentNode.data.replaceAll(${JSON.stringify(given)}, '${usualDirectory}');
    return document.body.innerText;
  })()
`;

async function picture(page: Page, name: string): Promise<void> {
  const path = `${directory}/${name}.png`;
  expect(await page.evaluate<string>(namePlaces(server.data_dir)), name).not.toContain(tmpdir());
  await page.screenshot({ path, animations: 'disabled' });
  expect(existsSync(path)).toBe(true);
}

/** The newest node of a pool with this status. */
async function nodeIn(pool: string, status: 'failed' | 'ready'): Promise<string> {
  const { items } = await server.client.call('node-list', { query: { pool, status, limit: 1 } });
  return items[0]?.node_id ?? '';
}

async function slowAllocation(): Promise<string> {
  const { items } = await server.client.call('allocation-list', { query: { pool: 'slow-boot', limit: 1 } });
  return items[0]?.allocation_id ?? '';
}

it('are taken in light and dark colours', async () => {
  const { page, context } = await visit(browser, { colorScheme: 'light', viewport: size });
  await signIn(page, server, '/attention');
  const show = async (path: string, there: string, name: string) => {
    await page.goto(server.url + path);
    await page.getByText(there).first().waitFor();
    await waitUntilLive(page);
    // From the same page, because loading costs more than drawing again.
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await waitForColours(page);
      await picture(page, `${name}-${colorScheme}`);
    }
  };
  await show('/attention', 'Releases that gave up', 'attention');
  await show(`/allocations/${await slowAllocation()}`, 'Waiting for it to register', 'progress');
  await show('/fleet?group=zone', 'releases failed', 'fleet');
  await show(`/nodes/${await nodeIn('web', 'ready')}`, 'boot stage', 'node');
  await show('/boots?pool=slow-boot&budget=150', 'Based on all', 'boots');
  await context.close();
});

it('are taken on a phone', async () => {
  const { page, context } = await visit(browser, { viewport: { width: 390, height: 844 }, hasTouch: true });
  await signIn(page, server, '/fleet');
  await page
    .getByRole('banner')
    .getByRole('link', { name: /^Attention: / })
    .waitFor();
  await picture(page, 'phone-light');
  await context.close();
});
