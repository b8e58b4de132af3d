/** An operator accepts the agent's key that the console shows, and no other. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { newKeyPair, publicKeyOf } from '../../src/agent/connection/keys.ts';
import { fingerprintOf } from '../../src/base/credentials/ed25519.ts';
import { type Machine, startMachine } from '../api/support/machine.ts';
import { openTables, type Tables } from '../api/support/tables.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, signIn, visit } from './support/console.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let server: TestServer;
let tables: Tables;
let browser: Browser;
let page: Page;
let complaints: string[];
let machine: Machine;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
  tables = await openTables(server.database_url);
  const body = { driver: 'external', heartbeat: { stale_after_seconds: 24 * 3600 } };
  await server.client.call('pool-put', { params: { pool: 'pier' }, body });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool: 'pier' } });
  machine = await startMachine(server.url, { join_token, name: 'rekeyed' });
  await machine.beat('ready');
  ({ page, complaints } = await visit(browser));
});
afterEach(() => expect(complaints).toEqual([]));
afterAll(async () => {
  await browser?.close();
  await tables?.close();
  await server?.stop();
});

/**
 * The agent presents a key that its former one did not sign. Returns the fingerprint as the agent
 * would print it.
 */
async function presentKey(): Promise<string> {
  const agent_public_key = publicKeyOf(newKeyPair());
  const reply = await machine.call('agent-register', { body: { version: 'test', agent_public_key } });
  expect(reply.status, reply.text).toBe(200);
  return fingerprintOf(agent_public_key);
}

const isInDoubt = async () => {
  const [row] = await tables.query<{ in_doubt: boolean }>(
    'select key_unproven_since is not null as in_doubt from instances where node_instance_id = $1',
    [machine.node_instance_id],
  );
  return row?.in_doubt;
};

const dialog = () => page.getByRole('dialog');

async function openDialog(): Promise<void> {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: /^Accept the key/ }).click();
}

async function accept(): Promise<void> {
  await dialog().getByLabel('Reason').fill('its disk was replaced');
  await dialog().getByRole('button', { name: 'Accept the key' }).click();
}

it('shows the presented key, and refuses another one that replaced it', async () => {
  const shown = await presentKey();
  await signIn(page, server, `/nodes/${machine.node_id}`);
  await openDialog();
  const foreseen = dialog().getByRole('region', { name: 'What will happen' });
  await foreseen.getByText(shown).waitFor();

  const later = await presentKey();
  expect(later).not.toBe(shown);
  await accept();
  await dialog().getByText(`The agent now signs with key ${later}, not ${shown}.`).waitFor();
  expect(await isInDoubt()).toBe(true);
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });

  await openDialog();
  await foreseen.getByText(later).waitFor();
  expect(await foreseen.getByText(shown).count()).toBe(0);
  await accept();
  await dialog().waitFor({ state: 'detached' });
  expect(await isInDoubt()).toBe(false);
});
