/**
 * Names are drawn as they are written, the account button keeps its size, a wrapped dialog title
 * stays readable, and Escape closes what is open on a phone.
 */
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { navigateTo, openBrowser, openPage, signIn, waitForTransitions } from './support/console.ts';

const phone = { viewport: { width: 390, height: 844 }, hasTouch: true };
const desktop = { viewport: { width: 1280, height: 800 } };

let server: TestServer;
let browser: Browser;
let nodeId: string;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await server.client.call('pool-put', { params: { pool: 'racks' }, body: { driver: 'external' } });
  const { node } = await server.client.call('node-create', { body: { pool: 'racks', name: 'rack-2x1' } });
  nodeId = node.node_id;
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/**
 * Measures text in the style of the title: as it is, with ligatures and without. With ligatures,
 * Inter draws 2x1 as 2×1 and -> as an arrow. The measured text has no letter spacing, because
 * Chromium draws no ligatures in text that has it.
 */
const measureText = `(() => {
  const title = document.querySelector('h1');
  const measure = (settings) => {
    const probe = document.createElement('span');
    probe.textContent = '2x1 10x10 a->b';
    probe.style.cssText = 'position: absolute; white-space: pre; letter-spacing: 0; ' + settings;
    title.append(probe);
    const { width } = probe.getBoundingClientRect();
    probe.remove();
    return width;
  };
  return ['', 'font-variant-ligatures: normal', 'font-variant-ligatures: none'].map(measure);
})()`;
const readLigatures = (selector: string) =>
  `getComputedStyle(document.querySelector('${selector}')).fontVariantLigatures`;

it('draws names as they are written, in text, headings and fields', async () => {
  const { page, context } = await openPage(browser, desktop);
  await signIn(page, server, `/nodes/${nodeId}`);
  await page.getByRole('heading', { name: 'rack-2x1' }).waitFor();
  // On a busy host the font may still be loading, and the title is drawn in another font.
  await page.evaluate(`document.fonts.load('16px "Inter Variable"').then(() => {})`);
  const [own = 0, withLigatures = 0, without = 0] = await page.evaluate<number[]>(measureText);
  expect(withLigatures, 'this font has such ligatures').not.toBe(without);
  expect(own).toBe(without);
  await navigateTo(page, '/fleet');
  await page.locator('input[data-search]').waitFor();
  for (const selector of ['input[data-search]', 'nav a', 'button'])
    expect(await page.evaluate(readLigatures(selector)), selector).toBe('none');
  await context.close();
});

const accountButton = (page: Page) => page.getByRole('button', { name: /admin/ });
const openNavigation = async (page: Page) => {
  await page.getByRole('button', { name: 'Navigation', exact: true }).click();
  // The navigation slides in.
  await waitForTransitions(page);
};
const readSize = async (button: Locator) => {
  const { width = 0, height = 0 } = (await button.boundingBox()) ?? {};
  return [Math.round(width), Math.round(height)];
};

it.each([
  ['a phone', phone],
  ['a desktop', desktop],
])('the account button keeps its size on %s, and Escape closes its menu', async (_, options) => {
  const { page, context } = await openPage(browser, options);
  await signIn(page, server, '/fleet');
  if (options === phone) await openNavigation(page);
  const button = accountButton(page);
  const item = page.getByRole('menuitem', { name: 'Sign out' });
  const before = await readSize(button);
  for (const round of [1, 2]) {
    await button.click();
    await item.waitFor();
    expect(await readSize(button), `open, round ${round}`).toEqual(before);
    await page.keyboard.press('Escape');
    await item.waitFor({ state: 'detached' });
    expect(await readSize(button), `closed, round ${round}`).toEqual(before);
  }
  await context.close();
});

it('Escape closes the navigation on a phone, but first clears the text in its search box', async () => {
  const { page, context } = await openPage(browser, phone);
  await signIn(page, server, '/fleet');
  const places = page.getByRole('navigation', { name: 'Places' });
  const isOnScreen = async () => ((await places.boundingBox())?.x ?? -1) >= 0;
  const burger = page.getByRole('button', { name: 'Navigation', exact: true });
  await openNavigation(page);
  await page.keyboard.press('Escape');
  await burger.and(page.locator('[aria-expanded=false]')).waitFor();
  await expect.poll(isOnScreen).toBe(false);
  await page.locator('button:focus[aria-label=Navigation]').waitFor();
  await openNavigation(page);
  const find = page.getByLabel('Find any id or name');
  await find.fill('rack');
  await page.keyboard.press('Escape');
  expect([await find.inputValue(), await burger.getAttribute('aria-expanded')]).toEqual(['', 'true']);
  await page.keyboard.press('Escape');
  await burger.and(page.locator('[aria-expanded=false]')).waitFor();
  await context.close();
});

/**
 * Makes the dialog's title narrow, and returns the height of a line, the size of the font and the
 * number of lines.
 */
const readTitle = `(() => {
  const title = document.querySelector('[role=dialog] h2');
  title.style.maxWidth = '6ch';
  const { lineHeight, fontSize } = getComputedStyle(title);
  const range = document.createRange();
  range.selectNodeContents(title);
  const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
  return [parseFloat(lineHeight), parseFloat(fontSize), new Set(tops).size];
})()`;

it.each([
  ['a phone', phone],
  ['a desktop', desktop],
])('the lines of a wrapped dialog title do not overlap on %s', async (_, options) => {
  const { page, context } = await openPage(browser, options);
  await signIn(page, server, `/nodes/${nodeId}`);
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: /^Retire/ }).click();
  const title = page.getByRole('dialog').getByRole('heading');
  await title.waitFor();
  const [lineHeight = 0, fontSize = 1, lines = 0] = await page.evaluate<number[]>(readTitle);
  expect(lines, 'the title wraps').toBeGreaterThan(1);
  expect(lineHeight / fontSize).toBeGreaterThan(1.2);
  await context.close();
});
