/** Many identical requests arrive at once. The action happens once, and all get the same answer. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server.stop());

const six = [1, 2, 3, 4, 5, 6];
const waitForAllocation = (id: string, status: string) =>
  until(`the allocation to be ${status}`, async () => {
    const allocation = await server.client.call('allocation-get', { params: { id } });
    return allocation.status === status ? allocation : undefined;
  });

it('starts one operation for six concurrent releases', async () => {
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'local' } });
  const id = allocation.allocation_id;
  await waitForAllocation(id, 'active');
  const answers = await Promise.all(six.map(() => server.client.call('allocation-release', { params: { id } })));
  expect(new Set(answers.map((answer) => answer.operation.workflow_id)).size).toBe(1);
  await waitForAllocation(id, 'released');
});

it('brings up one machine for six concurrent retries, and removes the failed one', async () => {
  const gate = join(await mkdtemp(join(tmpdir(), 'slipway-gate-')), 'open');
  const spec = { setup: `test -e ${gate}` };
  await server.client.call('pool-put', { params: { pool: 'gated' }, body: { driver: 'local', spec } });
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'gated' } });
  const id = allocation.allocation_id;
  const failed = await waitForAllocation(id, 'failed');
  await until('the failed operation to have ended', async () => {
    const { items } = await server.client.call('operation-list', { query: { allocation_id: id } });
    return items.every((operation) => operation.status === 'failed');
  });
  writeFileSync(gate, '');
  const answers = await Promise.all(six.map(() => server.client.call('allocation-retry', { params: { id } })));
  expect(new Set(answers.map((answer) => answer.operation.workflow_id)).size).toBe(1);
  const active = await waitForAllocation(id, 'active');
  expect(active.node_id).toBe(failed.node_id);
  const nodes = await server.client.call('node-list', { query: { pool: 'gated' } });
  expect(nodes.items).toHaveLength(1);
  expect(readdirSync(server.nodes_dir)).toEqual([nodes.items[0]?.node_instance_id]);
  await server.client.call('allocation-release', { params: { id } });
  await waitForAllocation(id, 'released');
  expect(readdirSync(server.nodes_dir)).toEqual([]);
  expect(existsSync(gate)).toBe(true);
});
