/**
 * The console shows the progress of an operation while the operation runs: its messages, its parts,
 * and a bar that never shrinks.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Driver } from '../../src/drivers/driver.ts';
import type { Composition } from '../../src/server/opening.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { openBrowser, openPage, releaseEverything, signIn, statusBadge, waitUntilLive } from './support/console.ts';

const messageCount = 60;
const secondsApart = 0.1;
const messageOf = (i: number) => `pool state ${i}`;

/** Reports `messageCount` messages before it launches the machine. */
function withMessages(driver: Driver): Driver {
  let sent = 0;
  const ensure: Driver['ensure'] = async (target) => {
    if (sent === messageCount) return driver.ensure(target);
    sent++;
    return {
      outcome: 'wait',
      retry_seconds: secondsApart,
      message: messageOf(sent),
      parts: [
        { name: 'systempool', kind: 'pool', state: 'Succeeded', tone: 'ok', count: 1 },
        { name: 'blastpool', kind: 'pool', state: 'Creating', tone: 'busy', count: sent },
      ],
    };
  };
  return { ...driver, ensure };
}

const composition: Composition = {
  drivers: (built) =>
    new Map([...built].map(([name, driver]) => [name, name === 'local' ? withMessages(driver) : driver])),
};

let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer({ composition }), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  if (!server) return;
  await releaseEverything(server);
  await server.stop();
});

/** Records when each message first appeared, and every width of the bar. */
const watchBanner = `
  window.seenAt = {};
  window.widths = [];
  new MutationObserver(() => {
    const banner = document.querySelector('[data-workflow]');
    const message = /pool state \\d+/.exec(banner?.textContent ?? '')?.[0];
    if (message) window.seenAt[message] ??= Date.now();
    const width = Number(banner?.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? NaN);
    if (!Number.isNaN(width) && width !== window.widths.at(-1)) window.widths.push(width);
  }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
`;

/** Reads from the evidence when each message was published. */
async function readPublicationTimes(allocation_id: string): Promise<Map<string, number>> {
  const query = { allocation_id, kind: 'operation.progress', limit: 500 };
  const { items } = await server.client.call('timeline-get', { query });
  const facts = items.map(({ at, summary, data }) => [
    /pool state \d+/.exec(`${summary} ${JSON.stringify(data)}`)?.[0],
    at,
  ]);
  return new Map(facts.flatMap(([message, at]) => (message && at ? [[message, Date.parse(at)]] : [])));
}

it('shows messages and parts while the operation runs, and the bar never goes back', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await page.addInitScript(watchBanner);
  await signIn(page, server, '/allocations');
  await waitUntilLive(page);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'local', name: 'chatty' } });
  await page.getByRole('link', { name: 'chatty' }).click();
  await page.getByText(/blastpool · Creating · \d+n/).waitFor();
  await page.getByText(/systempool · Succeeded · 1n/).waitFor();
  await statusBadge(page, 'active').waitFor();
  const publishedAt = await until('all messages in the evidence', async () => {
    const facts = await readPublicationTimes(allocation.allocation_id);
    return facts.size >= messageCount ? facts : undefined;
  });
  const seenAt = await page.evaluate<Record<string, number>>('window.seenAt');
  const delays = [...publishedAt].flatMap(([message, at]) => (seenAt[message] ? [seenAt[message] - at] : []));
  const sortedDelays = delays.toSorted((a, b) => a - b);
  const quantile = (share: number) =>
    sortedDelays[Math.min(sortedDelays.length - 1, Math.floor(sortedDelays.length * share))] ?? Number.NaN;
  console.log(
    `from publication to the screen, ${delays.length} of ${publishedAt.size}: p50 ${quantile(0.5)} ms, p99 ${quantile(0.99)} ms`,
  );
  // The page draws only the last message of a batch, and batches are large on a busy machine.
  expect(delays.length).toBeGreaterThan(messageCount / 10);
  const widths = await page.evaluate<number[]>('window.widths');
  expect(widths).toEqual(widths.toSorted((a, b) => a - b));
  expect(pageErrors).toEqual([]);
  await context.close();
});
