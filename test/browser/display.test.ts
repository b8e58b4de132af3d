/** Names are drawn as they are written. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { navigateTo, openBrowser, openPage, signIn } from './support/console.ts';

const desktop = { viewport: { width: 1280, height: 800 } };
/** With ligatures, Inter draws 2x1 as 2×1 and -> as an arrow. */
const poolName = 'gpu-2x1-with-a-name-so-long-that-a-title-wraps-on-every-phone';

let server: TestServer;
let browser: Browser;
let nodeId: string;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await server.client.call('pool-put', { params: { pool: poolName }, body: { driver: 'external' } });
  const { node } = await server.client.call('node-create', { body: { pool: poolName, name: 'rack-2x1' } });
  nodeId = node.node_id;
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** Measures text in the style of the title: as it is, with ligatures and without. */
const measureText = `(() => {
  const title = document.querySelector('h1');
  const measure = (settings) => {
    const probe = document.createElement('span');
    probe.textContent = '2x1 10x10 a->b';
    probe.style.cssText = 'position: absolute; white-space: pre; ' + settings;
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
  await page.evaluate('document.fonts.ready');
  const [own = 0, withLigatures = 0, without = 0] = await page.evaluate<number[]>(measureText);
  expect(withLigatures, 'this font has such ligatures').not.toBe(without);
  expect(own).toBe(without);
  await navigateTo(page, '/fleet');
  await page.locator('input[data-search]').waitFor();
  for (const selector of ['input[data-search]', 'nav a', 'code', 'button'])
    expect(await page.evaluate(readLigatures(selector)), selector).toBe('none');
  await context.close();
});
