/**
 * Fifty thousand machines that change five hundred times a second, in a real browser: the work of its main thread frame by
 * frame, how that grows with the fleet, and its memory over as many changes as a minute brings. Times are printed; what is
 * asserted holds on any machine: how the cost grows, and that memory does not.
 */
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openBrowser, visit } from './support/console.ts';
import { replayedFleet } from './support/replayed-fleet.ts';

const perSecond = 500;
const seconds = 4;
const minuteOfChanges = perSecond * 60;
/** As many changes as a minute brings, in less time: memory knows no clock. */
const hurry = 6;
const frameMs = 1000 / 60;

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser?.close());

/** Changes are gathered, then drawn with the next frame; both have had their turn. */
const caughtUp =
  'new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => setTimeout(resolve, 100)), 200))';

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

/** Processor time of the page's main thread, in the frames of the time that was traced. */
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

async function heapMegabytes(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize / 1024 / 1024;
}

async function measure(count: number, isWhole: boolean) {
  const fleet = await replayedFleet(count);
  const { page, context, complaints } = await visit(browser);
  await page.goto(`${fleet.url}/fleet`);
  await page.getByText(`${count.toLocaleString('en-US')} machines`).waitFor();
  expect(await cellsOn(page)).toBe(count);
  // The first changes warm up what every later one uses.
  await fleet.change(perSecond, 1);
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  const changes = await fleet.change(perSecond, seconds);
  // A page that fell behind has its work still before it, and that counts as well.
  await page.evaluate(caughtUp);
  const { frames, total_ms } = workPerFrame(await browser.stopTracing());
  const measured = { p95: quantile(frames, 0.95), worst: Math.max(...frames), per_change: total_ms / changes };
  console.log(
    `${count} nodes, ${Math.round(changes / seconds)} changes/s: main thread per frame p95 ${measured.p95.toFixed(1)} ms, ` +
      `worst ${measured.worst.toFixed(1)} ms, ${((total_ms / seconds) * 0.1).toFixed(0)} % busy, ${measured.per_change.toFixed(2)} ms a change`,
  );
  if (isWhole) {
    const session = await context.newCDPSession(page);
    const before = await heapMegabytes(session);
    const more = await fleet.change(perSecond * hurry, minuteOfChanges / perSecond / hurry);
    // Whatever is still on its way is part of it.
    await page.evaluate(caughtUp);
    const after = await heapMegabytes(session);
    console.log(`memory over ${more} changes: ${before.toFixed(1)} MB, then ${after.toFixed(1)} MB`);
    expect(after).toBeLessThan(before * 1.25 + 10);
    expect(await cellsOn(page)).toBe(count);
  }
  expect(complaints).toEqual([]);
  await context.close();
  await fleet.stop();
  return measured;
}

it('is walked by keyboard, searched, grouped and clicked, cell by cell', async () => {
  const fleet = await replayedFleet(1000);
  const { page, context, complaints } = await visit(browser);
  await page.goto(`${fleet.url}/fleet?pool=web`);
  await page.getByText('200 machines').waitFor();
  const cell = page.locator('[data-node]');
  await cell.focus();
  const at = async () => Number((await cell.getAttribute('data-node'))?.slice('node_'.length));
  expect(await at()).toBe(0);
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  expect(await at()).toBe(10);
  await page.keyboard.press('ArrowDown');
  const below = await at();
  expect(below).toBeGreaterThan(10 + 5);
  await page.keyboard.press('ArrowUp');
  expect(await at()).toBe(10);
  await page.keyboard.press('End');
  expect(await at()).toBe(995);

  // The pointer takes the same link with it, shows more, and leads there.
  const canvas = await page.locator('canvas').boundingBox();
  if (!canvas) throw new Error('nothing is drawn');
  await page.mouse.move(canvas.x + 20, canvas.y + 20);
  await page.getByText('machine-0', { exact: true }).waitFor();
  await page.getByText('By zone', { exact: true }).click();
  await page.waitForURL(/group=zone/);
  await page.getByRole('region', { name: /^Zone eu-2: \d+ ready/ }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('machine-995');
  await page.waitForURL(/q=machine-995/);
  await page.getByText('1 machine', { exact: true }).waitFor();
  const only = await page.locator('canvas').boundingBox();
  await page.mouse.click((only?.x ?? 0) + 20, (only?.y ?? 0) + 20);
  await page.waitForURL(/\/nodes\/node_00000995/);
  expect(complaints).toEqual([]);
  await context.close();
  await fleet.stop();
});

it('draws fifty thousand machines as smoothly as five thousand', async () => {
  const some = await measure(5000, false);
  const many = await measure(50_000, true);
  const ratio = many.per_change / some.per_change;
  console.log(`ten times the nodes: ${ratio.toFixed(1)} times the cost`);
  expect(ratio).toBeLessThan(12);
});
