/** A real browser on a real server: opens it, signs in, and collects the page's errors. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { findChromium } from '../../../scripts/setup/chromium.mjs';
import { release, waitForStatuses } from '../../support/allocations.ts';
import type { TestServer } from '../../support/server.ts';

/** For a loaded machine; every use waits for a condition. */
const patienceMs = 45_000;

/**
 * Two hidden pages of the browser, behind its address bar, which cost as much as a window of the
 * console.
 */
const hiddenPages = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup'];

/** The features that Playwright disables, repeated because the browser uses only the last list. */
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

/** Chromium has no sandbox as root, and tests make no requests to the outside. */
const args = [
  `--disable-features=${[...disabledByPlaywright, ...hiddenPages].join(',')}`,
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

export interface Visit {
  context: BrowserContext;
  page: Page;
  /** Errors of the page and errors that it logged, without refused requests. */
  complaints: string[];
}

export async function visit(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
  // Animations would redraw sixty times a second and use CPU that the other tests need.
  const context = await browser.newContext({
    viewport: { width: 1360, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(patienceMs);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(`${error.name}: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text());
  });
  return { context, page, complaints };
}

export async function signIn(page: Page, server: TestServer, path = '/'): Promise<void> {
  await page.goto(server.url + path);
  await page.getByLabel('Token', { exact: true }).fill(server.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Places' }).waitFor();
}

/**
 * Navigates without a reload, like a link. Goes through an empty page, so that no text of the page
 * before matches.
 */
export async function navigateTo(page: Page, path: string): Promise<void> {
  const go = (address: string) => page.evaluate(`history.pushState({}, '', ${JSON.stringify(address)})`);
  await go('/nowhere');
  await page.getByText('There is nothing at this address').first().waitFor();
  await go(path);
}

/** The badge with the status of the thing on this page. */
export const statusOf = (page: Page, status: string) => page.locator('[data-badge]', { hasText: status }).first();

export const waitUntilLive = (page: Page) =>
  page.getByText('Live', { exact: true }).filter({ visible: true }).waitFor();

/**
 * New colours reach the page with its next frame, and transitions to them start with the one after.
 */
const settledColours = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const fading = () => document.getAnimations().filter((each) => each instanceof CSSTransition);
  do {
    await Promise.allSettled(fading().map((each) => each.finished));
    await frame();
    await frame();
  } while (fading().length > 0);
})()`;

export const waitForColours = (page: Page) => page.evaluate(settledColours);

/** In the version for browsers. */
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
 * All axe findings, with their location; `only` limits them to one rule, because other colours
 * change only contrast.
 */
async function barriers(page: Page, only?: string): Promise<string[]> {
  // Once per document: parsing half a megabyte of rules takes longer than running most of them.
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axeSource);
  // Contrast cannot be judged during a transition.
  await waitForColours(page);
  const options = { resultTypes: ['violations'], ...(only && { runOnly: { type: 'rule', values: [only] } }) };
  const violations = await page.evaluate<Violation[]>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return violations.map(
    ({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`,
  );
}

export async function expectNoBarriers(page: Page, where: string, only?: string): Promise<void> {
  expect(await barriers(page, only), where).toEqual([]);
}

/** Machines outlive a stopped server, so the test must release them. */
export async function releaseEverything({ client }: TestServer): Promise<void> {
  const { items } = await client.call('allocation-list', { query: { limit: 500 } });
  const ids = items.filter(({ status }) => status !== 'released').map(({ allocation_id }) => allocation_id);
  await Promise.all(ids.map((id) => release(client, id)));
  await waitForStatuses(client, ids, 'released');
}
