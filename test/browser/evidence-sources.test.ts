/**
 * A timeline marks the facts that a machine or an outside program reported, and shows all facts by
 * time.
 */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { NodeId } from '../../src/base/ids.ts';
import { recordEvidence } from '../../src/store/evidence/evidence.ts';
import { openDatabase } from '../../src/store/pg/database.ts';
import { callRoute } from '../api/support/calls.ts';
import { startMachine } from '../api/support/machine.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, openPage, signIn } from './support/console.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let server: TestServer;
let browser: Awaited<ReturnType<typeof openBrowser>>;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

it('marks facts of machines and outside programs, but not those of the control plane', async () => {
  const heartbeat = { stale_after_seconds: 24 * 3600 };
  await server.client.call('pool-put', { params: { pool: 'pier' }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await server.client.call('join-token-create', { params: { pool: 'pier' } });
  const machine = await startMachine(server.url, { join_token, name: 'reporter' });
  await machine.beat('ready');
  const fact = { at: '2026-01-01T00:00:00Z', layer: 'transport', summary: 'a call failed', data: {} };
  await machine.call('agent-evidence', { body: { facts: [{ ...fact, kind: 'agent_call_failed' }] } });
  const ingressFact = { layer: 'transport', kind: 'ingress.refused', summary: 'a 502', node_id: machine.node_id };
  await callRoute(server.url, 'evidence-create', { body: { facts: [ingressFact] } }, { bearer: server.token });

  const { page, pageErrors } = await openPage(browser);
  await signIn(page, server, `/nodes/${machine.node_id}?tab=timeline`);
  const row = (summary: string) => page.locator('summary', { hasText: summary }).first();
  await row('a 502').waitFor();
  if (process.env.SLIPWAY_TEST_SHOT) await page.screenshot({ path: process.env.SLIPWAY_TEST_SHOT, fullPage: true });
  await expect.poll(() => row('a call failed').innerText(), { timeout: 45_000 }).toContain('machine says');
  expect(await row('a 502').innerText()).toContain('reported by');
  expect(await row('provisioning → starting').innerText()).not.toMatch(/machine says|reported by/);
  expect(pageErrors).toEqual([]);
});

it('shows facts by time, also if they were stored in another order', async () => {
  await server.client.call('pool-put', { params: { pool: 'quay' }, body: { driver: 'external' } });
  const { node } = await server.client.call('node-create', { body: { pool: 'quay', name: 'late-facts' } });
  // Clocks of replicas differ, so a fact may be stored after one with a later time.
  const db = openDatabase({ url: server.database_url, max_connections: 1 });
  for (const [summary, at] of [
    ['second', '2026-01-01T00:00:02Z'],
    ['third', '2026-01-01T00:00:03Z'],
    ['first', '2026-01-01T00:00:01Z'],
  ] as const) {
    const fact = { at: new Date(at), layer: 'transport', kind: 'probe.unanswered', summary, data: {} } as const;
    await recordEvidence(db, [{ ...fact, node_id: node.node_id as NodeId }]);
  }
  await db.close();
  const { page, context } = await openPage(browser);
  await signIn(page, server, `/nodes/${node.node_id}?tab=timeline`);
  const rows = page.locator('summary', { hasText: /second|third|first/ });
  await expect.poll(() => rows.count()).toBe(3);
  expect((await rows.allInnerTexts()).map((text) => /second|third|first/.exec(text)?.[0])).toEqual([
    'third',
    'second',
    'first',
  ]);
  await context.close();
});
