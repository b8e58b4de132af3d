/**
 * An operation's progress appears on the screen soon after it was published: message, parts, and a
 * bar that only grows.
 */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Driver } from '../../src/drivers/driver.ts';
import type { Composition } from '../../src/server/opening.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { openBrowser, releaseEverything, signIn, statusOf, visit, waitUntilLive } from './support/console.ts';

const publications = 60;
const apart_seconds = 0.1;
const wordsOf = (i: number) => `pool state ${i}`;

/** Reports many messages in a row before it launches. */
function talkative(driver: Driver): Driver {
  let sent = 0;
  const ensure: Driver['ensure'] = async (target) => {
    if (sent === publications) return driver.ensure(target);
    sent++;
    return {
      outcome: 'wait',
      retry_seconds: apart_seconds,
      message: wordsOf(sent),
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
    new Map([...built].map(([name, driver]) => [name, name === 'local' ? talkative(driver) : driver])),
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
    const words = /pool state \\d+/.exec(banner?.textContent ?? '')?.[0];
    if (words) window.seenAt[words] ??= Date.now();
    const width = Number(banner?.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? NaN);
    if (!Number.isNaN(width) && width !== window.widths.at(-1)) window.widths.push(width);
  }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
`;

/** When each message was published, from the evidence. */
async function publishedAt(allocation_id: string): Promise<Map<string, number>> {
  const query = { allocation_id, kind: 'operation.progress', limit: 500 };
  const { items } = await server.client.call('timeline-get', { query });
  const facts = items.map(({ at, summary, data }) => [
    /pool state \d+/.exec(`${summary} ${JSON.stringify(data)}`)?.[0],
    at,
  ]);
  return new Map(facts.flatMap(([words, at]) => (words && at ? [[words, Date.parse(at)]] : [])));
}

it('reaches the screen while the operation runs, and the bar never goes back', async () => {
  const { page, context, complaints } = await visit(browser);
  await page.addInitScript(watchBanner);
  await signIn(page, server, '/allocations');
  await waitUntilLive(page);
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'local', name: 'chatty' } });
  await page.getByRole('link', { name: 'chatty' }).click();
  await page.getByText(/blastpool · Creating · \d+n/).waitFor();
  await page.getByText(/systempool · Succeeded · 1n/).waitFor();
  await statusOf(page, 'active').waitFor();
  const published = await until('all messages in the evidence', async () => {
    const facts = await publishedAt(allocation.allocation_id);
    return facts.size >= publications ? facts : undefined;
  });
  const seen = await page.evaluate<Record<string, number>>('window.seenAt');
  const delays = [...published].flatMap(([words, at]) => (seen[words] ? [seen[words] - at] : []));
  const sorted = delays.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  console.log(
    `from publication to the screen, ${delays.length} of ${published.size}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`,
  );
  // Messages within one batch are drawn once. A busy machine has large batches.
  expect(delays.length).toBeGreaterThan(publications / 10);
  const widths = await page.evaluate<number[]>('window.widths');
  expect(widths).toEqual(widths.toSorted((a, b) => a - b));
  expect(complaints).toEqual([]);
  await context.close();
});
