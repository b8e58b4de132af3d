/** Opens the console in a real browser, signs in, and checks accessibility. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { findChromium } from '../../../scripts/setup/chromium.mjs';
import { release, waitForStatuses } from '../../support/allocations.ts';
import type { TestServer } from '../../support/server.ts';

/** Enough for a loaded machine. Every wait ends as soon as its condition holds. */
const maxWaitMs = 45_000;

/** Popups of the address bar. Chromium keeps them as hidden pages, as costly as a console page. */
const addressBarPopups = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup'];

/** Playwright disables these. Chromium uses only the last feature list, so ours repeats them. */
const disabledByPlaywright = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
];

/** Chromium cannot use its sandbox as root. Tests send no requests to the internet. */
const args = [
  `--disable-features=${[...disabledByPlaywright, ...addressBarPopups].join(',')}`,
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export async function openBrowser(): Promise<Browser> {
  const executablePath = findChromium();
  if (!executablePath)
    throw new Error('no Chromium: install it (Debian: apt-get install chromium) or set CHROMIUM_PATH to its program');
  return chromium.launch({ executablePath, args });
}

export interface OpenedPage {
  context: BrowserContext;
  page: Page;
  /** Uncaught errors and logged errors of the page, without failed requests. */
  pageErrors: string[];
}

/** Opens an empty page in a new browser context. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<OpenedPage> {
  // Animations would redraw sixty times a second and take CPU from the other tests.
  const context = await browser.newContext({
    viewport: { width: 1360, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(maxWaitMs);
  const page = await context.newPage();
  const pageErrors: string[] = [];
  page.on('pageerror', (error) => pageErrors.push(`${error.name}: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      pageErrors.push(message.text());
  });
  return { context, page, pageErrors };
}

export async function signIn(page: Page, server: TestServer, path = '/'): Promise<void> {
  await page.goto(server.url + path);
  await page.getByLabel('Token', { exact: true }).fill(server.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Places' }).waitFor();
}

/**
 * Navigates without a reload, like a link. The unknown address in between ensures that a wait for
 * text does not match the previous page.
 */
export async function navigateTo(page: Page, path: string): Promise<void> {
  const go = (address: string) => page.evaluate(`history.pushState({}, '', ${JSON.stringify(address)})`);
  await go('/nowhere');
  await page.getByText('There is no page at this URL').first().waitFor();
  await go(path);
}

/** Locates the first badge with this status. */
export const statusBadge = (page: Page, status: string) => page.locator('[data-badge]', { hasText: status }).first();

export const waitUntilLive = (page: Page) =>
  page.getByText('Live', { exact: true }).filter({ visible: true }).waitFor();

/**
 * New colours reach the page with the next frame, and CSS transitions to them start one frame
 * later. So the script waits two frames before it looks for transitions again.
 */
const transitionScript = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const fading = () => document.getAnimations().filter((each) => each instanceof CSSTransition);
  do {
    await Promise.allSettled(fading().map((each) => each.finished));
    await frame();
    await frame();
  } while (fading().length > 0);
})()`;

export const waitForTransitions = (page: Page) => page.evaluate(transitionScript);

/** The browser build of axe. */
const axeSource = readFileSync(
  createRequire(createRequire(import.meta.url).resolve('@axe-core/playwright')).resolve('axe-core/axe.min.js'),
  'utf8',
);

interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[] }[];
}

/**
 * Returns all axe violations with their locations. `only` runs a single rule: after a change of
 * colours only the contrast can differ.
 */
async function findAxeViolations(page: Page, only?: string): Promise<string[]> {
  // axe is loaded once per document: parsing its half megabyte takes longer than most rules.
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axeSource);
  // During a transition the contrast is neither the old one nor the new one.
  await waitForTransitions(page);
  const options = { resultTypes: ['violations'], ...(only && { runOnly: { type: 'rule', values: [only] } }) };
  const violations = await page.evaluate<Violation[]>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return violations.map(
    ({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`,
  );
}

export async function expectAccessible(page: Page, where: string, only?: string): Promise<void> {
  expect(await findAxeViolations(page, only), where).toEqual([]);
}

/** Releases every allocation and waits until its machine is gone. */
export async function releaseEverything({ client }: TestServer): Promise<void> {
  const { items } = await client.call('allocation-list', { query: { limit: 500 } });
  const ids = items.filter(({ status }) => status !== 'released').map(({ allocation_id }) => allocation_id);
  await Promise.all(ids.map((id) => release(client, id)));
  await waitForStatuses(client, ids, 'released');
}
