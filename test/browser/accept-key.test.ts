/** An operator accepts the agent key that the console shows, and only that key. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { newKeyPair, publicKeyOf } from '../../src/agent/connection/keys.ts';
import { fingerprintOf } from '../../src/base/credentials/ed25519.ts';
import { type Machine, startMachine } from '../api/support/machine.ts';
import { openTables, type Tables } from '../api/support/tables.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, openPage, signIn } from './support/console.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let server: TestServer;
let tables: Tables;
let browser: Browser;
let page: Page;
let pageErrors: string[];
let machine: Machine;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  tables = await openTables(server.database_url);
  const body = { driver: 'external', heartbeat: { stale_after_seconds: 24 * 3600 } };
  await server.client.call('pool-put', { params: { pool: 'pier' }, body });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool: 'pier' } });
  machine = await startMachine(server.url, { join_token, name: 'rekeyed' });
  await machine.beat('ready');
  ({ page, pageErrors } = await openPage(browser));
});
afterEach(() => expect(pageErrors).toEqual([]));
afterAll(async () => {
  await browser?.close();
  await tables?.close();
  await server?.stop();
});

/**
 * Registers the agent with a new key that its previous key did not sign. Returns the fingerprint of
 * the new key.
 */
async function registerNewKey(): Promise<string> {
  const agent_public_key = publicKeyOf(newKeyPair());
  const reply = await machine.call('agent-register', { body: { version: 'test', agent_public_key } });
  expect(reply.status, reply.text).toBe(200);
  return fingerprintOf(agent_public_key);
}

const isKeyUnproven = async () => {
  const [row] = await tables.query<{ is_unproven: boolean }>(
    'select key_unproven_since is not null as is_unproven from instances where node_instance_id = $1',
    [machine.node_instance_id],
  );
  return row?.is_unproven;
};

const dialog = () => page.getByRole('dialog');

async function openDialog(): Promise<void> {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: /^Accept the key/ }).click();
}

async function confirmAcceptance(): Promise<void> {
  await dialog().getByLabel('Reason').fill('its disk was replaced');
  await dialog().getByRole('button', { name: 'Accept the key' }).click();
}

it('refuses to accept a key that changed after the dialog showed it', async () => {
  const firstKey = await registerNewKey();
  await signIn(page, server, `/nodes/${machine.node_id}`);
  await openDialog();
  const preview = dialog().getByRole('region', { name: 'What will happen' });
  await preview.getByText(firstKey).waitFor();

  const secondKey = await registerNewKey();
  expect(secondKey).not.toBe(firstKey);
  await confirmAcceptance();
  await dialog().getByText(`The agent now signs with key ${secondKey}, not ${firstKey}.`).waitFor();
  expect(await isKeyUnproven()).toBe(true);
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });

  await openDialog();
  await preview.getByText(secondKey).waitFor();
  expect(await preview.getByText(firstKey).count()).toBe(0);
  await confirmAcceptance();
  await dialog().waitFor({ state: 'detached' });
  expect(await isKeyUnproven()).toBe(false);
});
