/**
 * The pictures of the documentation, taken of the real thing. They are always taken, so that they can always be taken;
 * those in `docs/images/` are replaced only when asked for (`UPDATE_IMAGES=1`), because no two runs are alike to the bit.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { allBecome, allocate, declarePool } from '../support/machine-life.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, releaseEverything, signIn, visit } from './support/console.ts';

const inRoot = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const directory = inRoot(process.env.UPDATE_IMAGES ? 'docs/images' : 'reports/images');

const size = { width: 1280, height: 800 };

let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  await declarePool(server.client, 'workspaces', { spec: { boot_stages: [{ name: 'unpack', seconds: 0.2 }] } });
  await declarePool(server.client, 'gpu', { zone: 'eu-1', spec: { setup: 'sleep 60' } });
  const ready = await Promise.all(
    ['local', 'local', 'workspaces', 'workspaces', 'workspaces', 'workspaces'].map((pool) =>
      allocate(server.client, pool),
    ),
  );
  await allBecome(server.client, ready, 'active');
  mkdirSync(directory, { recursive: true });
});
afterAll(async () => {
  await browser?.close();
  if (!server) return;
  await releaseEverything(server);
  await server.stop();
});

async function picture(page: Page, name: string): Promise<void> {
  const path = `${directory}/${name}.png`;
  await page.screenshot({ path, animations: 'disabled' });
  expect(existsSync(path)).toBe(true);
}

it.each(['light', 'dark'] as const)('are taken in %s colours', async (colorScheme) => {
  const { page, context } = await visit(browser, { colorScheme, viewport: size });
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'gpu', name: 'train-7' } });
  await signIn(page, server, `/allocations/${allocation.allocation_id}`);
  await page.getByText('Waiting for it to register').first().waitFor();
  await picture(page, `progress-${colorScheme}`);

  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.locator('[data-status="provisioning"]').first().waitFor();
  await picture(page, `fleet-${colorScheme}`);

  await page.locator('[data-status="ready"]').first().click();
  await page.locator('summary').first().waitFor();
  await picture(page, `node-${colorScheme}`);
  await context.close();
});
