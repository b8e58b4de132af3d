/** A real browser in front of a real server: opens it, signs in, and listens for what a person would never be told. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { findChromium } from '../../../scripts/setup/chromium.mjs';
import { release, waitForStatuses } from '../../support/allocations.ts';
import type { TestServer } from '../../support/server.ts';

/** For a loaded machine; a test that needs it is waiting for a condition. */
const patienceMs = 45_000;

/** Two pages of the browser's own, behind its address bar, which nobody sees: they cost as much as a window of the console. */
const pagesNobodySees = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup'];

/** What Playwright leaves out, said again: the browser hears only the last list. */
const leftOutByPlaywright = [
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

/** Root has no sandbox to give, and nothing in a test may phone home. */
const args = [
  `--disable-features=${[...leftOutByPlaywright, ...pagesNobodySees].join(',')}`,
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
  /** Errors of the page itself and what it wrote to its console as one; refused requests are the server's affair. */
  complaints: string[];
}

export async function visit(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
  // What turns and sweeps while something goes on is drawn sixty times a second, by processors that others need.
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
 * As a link would lead there, without loading everything again; by way of nowhere, so that no words of the page before are taken
 * for those of this one.
 */
export async function walkTo(page: Page, path: string): Promise<void> {
  const go = (address: string) => page.evaluate(`history.pushState({}, '', ${JSON.stringify(address)})`);
  await go('/nowhere');
  await page.getByText('There is nothing at this address').first().waitFor();
  await go(path);
}

/** The badge that says what the thing on this page is now. */
export const statusOf = (page: Page, status: string) => page.locator('[data-badge]', { hasText: status }).first();

export const isLive = (page: Page) => page.getByText('Live', { exact: true }).filter({ visible: true }).waitFor();

/** Other colours are told to the page with its next frame, and what fades to them begins to with the one after that. */
const settledColours = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const fading = () => document.getAnimations().filter((each) => each instanceof CSSTransition);
  do {
    await Promise.allSettled(fading().map((each) => each.finished));
    await frame();
    await frame();
  } while (fading().length > 0);
})()`;

export const coloursSettle = (page: Page) => page.evaluate(settledColours);

/** As it comes with its binding for browsers. */
const axeSource = readFileSync(
  createRequire(createRequire(import.meta.url).resolve('@axe-core/playwright')).resolve('axe-core/axe.min.js'),
  'utf8',
);

interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[] }[];
}

/** Everything that axe finds wrong, in words that lead to the place; other colours change nothing but contrast. */
async function barriers(page: Page, only?: string): Promise<string[]> {
  // Once a document: reading half a megabyte of rules takes longer than most of them.
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axeSource);
  // Half-way from one colour to another nothing can be said of either.
  await coloursSettle(page);
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

/** A server that is stopped leaves its machines running, as it should; a test must not. */
export async function releaseEverything({ client }: TestServer): Promise<void> {
  const { items } = await client.call('allocation-list', { query: { limit: 500 } });
  const ids = items.filter(({ status }) => status !== 'released').map(({ allocation_id }) => allocation_id);
  await Promise.all(ids.map((id) => release(client, id)));
  await waitForStatuses(client, ids, 'released');
}
