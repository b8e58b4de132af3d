/**
 * The pictures of the documentation, taken of the real thing. They are always taken, so that they can always be taken;
 * those in `docs/images/` are replaced only when asked for (`UPDATE_IMAGES=1`), because no two runs are alike to the bit.
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
import { coloursSettle, isLive, openBrowser, signIn, visit } from './support/console.ts';

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
  // Some of its machines cannot be released, which is what they are for; they end with their server.
  await server?.stop();
});

const days = 6;
const bootsADay = 40;

/** What nobody can wait for: days of boots, most of them alike, some slow, a few that never came; every day the same. */
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

/** Where a server's data usually is; the directory of this run means nothing to anybody. */
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

/** The newest one of a pool that is in this status. */
async function nodeIn(pool: string, status: 'failed' | 'ready'): Promise<string> {
  const { items } = await server.client.call('node-list', { query: { pool, status, limit: 1 } });
  return items[0]?.node_id ?? '';
}

async function slowAllocation(): Promise<string> {
  const { items } = await server.client.call('allocation-list', { query: { pool: 'slow-boot', limit: 1 } });
  return items[0]?.allocation_id ?? '';
}

it('are taken in light and in dark colours', async () => {
  const { page, context } = await visit(browser, { colorScheme: 'light', viewport: size });
  await signIn(page, server, '/attention');
  const show = async (path: string, there: string, name: string) => {
    await page.goto(server.url + path);
    await page.getByText(there).first().waitFor();
    await isLive(page);
    // Of the same page: to load it costs more than to draw it again.
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await coloursSettle(page);
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
