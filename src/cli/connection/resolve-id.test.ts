/** Checks that the server resolves names, and ids without one of our prefixes. */
import { beforeEach, expect, test } from 'vitest';
import type { Found, FoundThing } from '../../contract/fleet/find.ts';
import { runCli } from '../testing/run-cli.ts';
import { sampleAllocation, sampleNode } from '../testing/samples.ts';
import { ScriptedServer } from '../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set('node_1', sampleNode({ node_id: 'node_1' }));
  return () => server.stop();
});

const thing = (fields: Partial<FoundThing>): FoundThing => ({
  ...{ kind: 'node', id: 'node_1', name: 'web', status: 'ready', over: false },
  ...{ node_id: 'node_1', node_instance_id: null, allocation_id: null },
  ...fields,
});

async function runWatch(word: string, found: Partial<Found>) {
  const emptyReply = { known: true, as_request: false, items: [], meant: null, requests: [] };
  server.on('thing-find', () => ({ body: { ...emptyReply, ...found } }));
  return runCli(['watch', word], { server: server.url });
}

test('resolves the id of an instance to its node', async () => {
  const meant = { kind: 'node', id: 'node_1', node_instance_id: 'inst_1' } as const;
  expect((await runWatch('inst_1', { items: [thing({})], meant })).code).toBe(0);
  expect(server.callsOf('thing-find')[0]?.query).toEqual({ id: 'inst_1' });
  expect(server.callsOf('node-get')[0]?.params).toEqual({ id: 'node_1' });
});

test('lists the candidates of an ambiguous name: exit 2', async () => {
  const items = [thing({}), thing({ id: 'node_2', status: 'failed' })];
  const { code, stderr } = await runWatch('web', { items });
  expect(code).toBe(2);
  expect(stderr).toContain('web names several things');
  expect(stderr).toContain('node_1 (node, ready), node_2 (node, failed)');
});

test('reports an unknown name, and a request that touched no machine: exit 1', async () => {
  expect(await runWatch('web', { known: false })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Nothing is known about web'),
  });
  expect(await runWatch('ticket-8', { as_request: true })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('ticket-8 was a request that touched no machine'),
  });
});

test('releases by the name of an allocation, and by the id of its machine', async () => {
  const allocation = sampleAllocation({ allocation_id: 'alloc_1', status: 'releasing' });
  server.on('allocation-release', () => ({ status: 202, body: { allocation, operation: null } }));
  const meant = { kind: 'allocation', id: 'alloc_1', node_instance_id: null } as const;
  server.on('thing-find', () => ({ body: { known: true, as_request: false, items: [], meant, requests: [] } }));
  expect((await runCli(['release', 'shop'], { server: server.url })).code).toBe(0);
  server.nodes.set('node_1', sampleNode({ node_id: 'node_1', allocation_id: 'alloc_1' }));
  expect((await runCli(['release', 'node_1'], { server: server.url })).code).toBe(0);
  expect(server.callsOf('allocation-release').map(({ params }) => params.id)).toEqual(['alloc_1', 'alloc_1']);
});

test('names the actions command when an action by name is refused', async () => {
  const meant = { kind: 'node', id: 'node_1', node_instance_id: null } as const;
  server.on('thing-find', () => ({ body: { known: true, as_request: false, items: [], meant, requests: [] } }));
  server.refuse('node-act', { code: 'action_illegal', status: 409 });
  const { stderr } = await runCli(['act', 'shop', 'undrain', '--reason', 'x'], { server: server.url });
  expect(stderr).toMatch(/What to do: .*actions shop/);
});
