/**
 * The first five minutes: a real machine comes up and goes down, and every layer records it under
 * one correlation id.
 */
import { existsSync, readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server.stop());

it('brings a machine up and takes it down with proof, under one correlation id', async () => {
  const correlation_id = 'first-machine';
  const { allocation } = await server.client.call('allocation-create', {
    body: { pool: 'local', name: 'first' },
    headers: { 'x-correlation-id': correlation_id },
  });
  const id = { id: allocation.allocation_id };
  const active = await until('the allocation to be active', async () => {
    const current = await server.client.call('allocation-get', { params: id });
    return current.status === 'active' ? current : undefined;
  });
  expect(active.node_id).toBeTruthy();
  const node = await server.client.call('node-get', { params: { id: active.node_id ?? '' } });
  expect(node).toMatchObject({
    status: 'ready',
    occupancy: 'occupied',
    fenced: false,
    allocation_id: allocation.allocation_id,
  });
  expect(readdirSync(server.nodes_dir)).toEqual([node.node_instance_id]);

  await server.client.call('allocation-release', { params: id, headers: { 'x-correlation-id': correlation_id } });
  await until(
    'the allocation to be released',
    async () => (await server.client.call('allocation-get', { params: id })).status === 'released',
  );
  expect(existsSync(`${server.nodes_dir}/${node.node_instance_id}`)).toBe(false);

  const timeline = await until('evidence of all layers', async () => {
    const page = await server.client.call('timeline-get', { query: { correlation_id, limit: 500 } });
    return page.items.length > 0 &&
      page.items.some((fact) => fact.kind === 'operation.succeeded' && fact.summary.startsWith('allocation-release'))
      ? page.items
      : undefined;
  });
  const layers = new Set(timeline.map((fact) => fact.layer));
  for (const layer of ['api', 'workflow', 'provider', 'node'] as const)
    expect(layers, `evidence of layer ${layer}`).toContain(layer);
  expect(timeline.some((fact) => fact.kind === 'proof.absent')).toBe(true);
});
