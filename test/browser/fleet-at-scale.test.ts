/**
 * Fifty thousand machines that change five hundred times a second, from a real database through a
 * real server into a real browser. Measures the main thread's work per frame, how it grows with the
 * fleet, and the memory. Times are printed. Assertions hold on any machine: every change arrives,
 * the cost grows slowly, and memory does not grow. `SLIPWAY_FLEET_SECONDS=60` watches for a whole
 * minute.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { until } from '../support/until.ts';
import { openBrowser, signIn, visit, waitUntilLive } from './support/console.ts';
import { type RealFleet, realFleet } from './support/real-fleet.ts';

const perSecond = 500;
/** For the large fleet; a tenth of its machines are watched for half as long. */
const seconds = Number(process.env.SLIPWAY_FLEET_SECONDS ?? 8);
const frameMs = 1000 / 60;

let browser: Browser;
let fleet: RealFleet;
beforeAll(async () => {
  browser = await openBrowser();
  fleet = await realFleet();
  await fleet.grow(5000);
});
afterAll(async () => {
  await browser?.close();
  await fleet?.stop();
});

/** The page's counts of each group, added up. */
async function countsOn(page: Page): Promise<Record<string, number>> {
  const said = await page.getByRole('region').evaluateAll((all) => all.map((each) => each.ariaLabel ?? ''));
  const counts: Record<string, number> = {};
  for (const [, count, status] of said.join().matchAll(/(\d+) ([a-z]+)/g))
    counts[status ?? ''] = (counts[status ?? ''] ?? 0) + Number(count);
  return counts;
}

/** Resolves when every change has arrived on the page. */
const caughtUp = (page: Page) =>
  until('the page shows every change', async () => isDeepStrictEqual(await countsOn(page), fleet.counts()));

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

/** CPU time of the page's main thread, per frame of the traced time. */
function workPerFrame(trace: Buffer): { frames: number[]; total_ms: number } {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const isMain = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid}/${tid}`),
  );
  const tasks = traceEvents.filter(
    ({ name, ph, pid, tid }) => name.endsWith('RunTask') && ph === 'X' && isMain.has(`${pid}/${tid}`),
  );
  const begun = Math.min(...tasks.map(({ ts }) => ts));
  const frames = new Map<number, number>();
  let total_ms = 0;
  for (const { ts, tdur = 0 } of tasks) {
    const frame = Math.floor((ts - begun) / 1000 / frameMs);
    frames.set(frame, (frames.get(frame) ?? 0) + tdur / 1000);
    total_ms += tdur / 1000;
  }
  const last = Math.max(...frames.keys());
  return { frames: Array.from({ length: last + 1 }, (_, i) => frames.get(i) ?? 0), total_ms };
}

const quantile = (values: number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;

const cellsOn = async (page: Page): Promise<number> =>
  (
    await page.locator('[data-cells]').evaluateAll((all) => all.map((each) => Number(each.getAttribute('data-cells'))))
  ).reduce((sum, cells) => sum + cells, 0);

/**
 * How the fleet reached the page: replies, their time from the first request to the last byte, and
 * their size.
 */
const repliesOn = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const resources = performance.getEntriesByType('resource') as unknown as Record<
      'duration' | 'decodedBodySize',
      number
    >[];
    const replies = resources.filter((each) => String(Object(each).name).includes('/v1/fleet'));
    const ms = replies.reduce((sum, { duration }) => sum + duration, 0);
    const bytes = replies.reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0);
    return `${replies.length} replies in ${Math.round(ms)} ms, ${(bytes / 2 ** 20).toFixed(1)} MB`;
  });

async function heapMegabytes(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize / 1024 / 1024;
}

async function measure(count: number, seconds: number) {
  const { page, context, complaints } = await visit(browser);
  await signIn(page, fleet.server, '/attention');
  const begunMs = systemClock.nowMs();
  await page.goto(`${fleet.server.url}/fleet`);
  await page.getByText(`${count.toLocaleString('en-US')} machines`).waitFor();
  const loadedMs = systemClock.nowMs() - begunMs;
  expect(await cellsOn(page)).toBe(count);
  await waitUntilLive(page);
  // The first changes warm up code that all later ones use.
  await fleet.change(perSecond, 1);
  await caughtUp(page);
  const session = await context.newCDPSession(page);
  const before = await heapMegabytes(session);
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  const changes = await fleet.change(perSecond, seconds);
  // A page that fell behind still has that work to do, and it counts too.
  await caughtUp(page);
  const { frames, total_ms } = workPerFrame(await browser.stopTracing());
  const after = await heapMegabytes(session);
  const measured = { p95: quantile(frames, 0.95), worst: Math.max(...frames), per_change: total_ms / changes };
  console.log(
    `${count} nodes shown after ${loadedMs} ms (${await repliesOn(page)}), ${Math.round(changes / seconds)} changes/s for ${seconds} s: main thread per frame ` +
      `p95 ${measured.p95.toFixed(1)} ms, worst ${measured.worst.toFixed(1)} ms, ${((total_ms / seconds) * 0.1).toFixed(0)} % busy, ` +
      `${measured.per_change.toFixed(2)} ms a change; memory ${before.toFixed(1)} MB, then ${after.toFixed(1)} MB`,
  );
  expect(after).toBeLessThan(before * 1.25 + 10);
  expect(await cellsOn(page)).toBe(count);
  expect(complaints).toEqual([]);
  await context.close();
  return measured;
}

it('is used by keyboard, search, grouping and clicks, cell by cell', async () => {
  const { page, context, complaints } = await visit(browser);
  await signIn(page, fleet.server, '/fleet?pool=web');
  await page.getByText('1,000 machines').waitFor();
  const cell = page.locator('[data-node]');
  await cell.focus();
  const label = async () => cell.getAttribute('aria-label');
  const [first] = [await label()];
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const third = await label();
  expect(third).not.toBe(first);
  await page.keyboard.press('ArrowDown');
  expect(await label()).not.toBe(third);
  await page.keyboard.press('ArrowUp');
  expect(await label()).toBe(third);
  await page.keyboard.press('End');
  expect(await label()).toBe('web-999, ready');

  // The pointer moves the same link, shows more, and leads there.
  const canvas = await page.locator('canvas').boundingBox();
  if (!canvas) throw new Error('the canvas is missing');
  await page.mouse.move(canvas.x + 20, canvas.y + 20);
  await page.getByText('web-1', { exact: true }).waitFor();
  await page.getByText('By zone', { exact: true }).click();
  await page.waitForURL(/group=zone/);
  await page.getByRole('region', { name: /^Zone eu-1: 500 ready/ }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('web-995');
  await page.waitForURL(/q=web-995/);
  await page.getByText('1 machine', { exact: true }).waitFor();
  // The id of its instance finds it too, although the page does not hold it. Another machine's, so
  // that the former result cannot match.
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('inst_web_990');
  await page.waitForURL(/q=inst_web_990/);
  const whereTheOnlyOneIs = async () => {
    const box = await page.locator('canvas').boundingBox();
    return { clientX: (box?.x ?? 0) + 10, clientY: (box?.y ?? 0) + 10 };
  };
  /** Null while the page still moves: a click would miss the cell. */
  const pointedAt = async () => {
    const place = await whereTheOnlyOneIs();
    for (const off of [0, 1]) await page.mouse.move(place.clientX + off, place.clientY + off);
    const named = await label();
    return isDeepStrictEqual(place, await whereTheOnlyOneIs()) ? named : null;
  };
  await expect.poll(pointedAt, { timeout: 45_000 }).toBe('web-990, ready');
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForURL(/\/nodes\/node_web_990/);

  // Like a click whose press was on the canvas and whose release was on the link that had appeared
  // there.
  await page.goBack();
  await page.locator('[data-cells]').dispatchEvent('click', await whereTheOnlyOneIs());
  await page.waitForURL(/\/nodes\/node_web_990/);
  expect(complaints).toEqual([]);
  await context.close();
});

it('shows a million as counts by pool, reads the cells of the opened one, and searches on the server', async () => {
  const { page, context, complaints } = await visit(browser);
  // The pools are real, but each claims to be two hundred times as large.
  await page.route('**/v1/fleet/counts', async (route) => {
    const reply = await route.fetch();
    const { items } = (await reply.json()) as { items: { nodes: number }[] };
    await route.fulfill({
      response: reply,
      json: { items: items.map((each) => ({ ...each, nodes: 200 * each.nodes })) },
    });
  });
  const read: string[] = [];
  page.on('request', (request) => read.push(request.url()));
  await signIn(page, fleet.server, '/fleet');
  await page.getByText('1,000,000 machines', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Pool web: 200000 ready' }).waitFor();
  expect(read.filter((url) => /v1\/fleet(\?|$)/.test(url))).toEqual([]);
  await page.keyboard.press('/');
  await page.keyboard.type('web-995');
  await page.getByText('web-995', { exact: true }).waitFor();
  await page.goto(`${fleet.server.url}/fleet`);
  await page.getByRole('link', { name: 'web', exact: true }).click();
  await page.getByText('1,000 machines', { exact: true }).waitFor();
  expect(await cellsOn(page)).toBe(1000);
  expect(read.filter((url) => /v1\/fleet(\?|$)/.test(url)).every((url) => url.includes('pool=web'))).toBe(true);
  expect(complaints).toEqual([]);
  await context.close();
});

it('draws fifty thousand machines as smoothly as five thousand', async () => {
  const some = await measure(5000, seconds / 2);
  await fleet.grow(50_000);
  const many = await measure(50_000, seconds);
  const ratio = many.per_change / some.per_change;
  console.log(`ten times the nodes: ${ratio.toFixed(1)} times the cost`);
  expect(ratio).toBeLessThan(12);
});
