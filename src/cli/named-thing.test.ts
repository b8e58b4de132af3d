/** What is meant by a word that carries none of the prefixes: found by the server, and chosen here. */
import { beforeEach, expect, test } from 'vitest';
import type { FoundThing } from '../contract/find.ts';
import { runCli } from './testing/run-cli.ts';
import { sampleAllocation, sampleIds, sampleNode, sampleOperation } from './testing/samples.ts';
import { ScriptedServer } from './testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.allocations.set(sampleIds.allocation_id, sampleAllocation({ status: 'active' }));
  server.operations.set(sampleIds.workflow_id, sampleOperation());
  for (const node_id of ['node_1', 'node_2', sampleIds.node_id]) server.nodes.set(node_id, sampleNode({ node_id }));
  return () => server.stop();
});

const thing = (fields: Partial<FoundThing>): FoundThing => ({
  ...{ kind: 'node', id: 'node_1', name: 'web', status: 'ready', over: false },
  ...{ node_id: 'node_1', node_instance_id: null, allocation_id: null },
  ...fields,
});
const retired = thing({ id: 'node_2', node_id: 'node_2', status: 'retired', over: true });

async function watched(word: string, items: FoundThing[], as_request = false) {
  server.on('thing-find', () => ({ body: { known: items.length > 0 || as_request, as_request, items, requests: [] } }));
  server.calls.length = 0;
  const { code, stderr } = await runCli(['watch', word], { server: server.url });
  const asked = server.calls.find(({ name }) => name === 'node-get' || name === 'allocation-get');
  return { code, stderr, id: asked?.params.id };
}

test('a name is the machine that bears it now, not one that bore it', async () => {
  expect(await watched('web', [retired, thing({})])).toMatchObject({ code: 0, id: 'node_1' });
  expect(await watched('web', [retired])).toMatchObject({ code: 0, id: 'node_2' });
});

test('a request is the claim it was about, before its operation and its machine', async () => {
  const { allocation_id } = sampleIds;
  const items = [
    thing({}),
    thing({ kind: 'operation', id: sampleIds.workflow_id, allocation_id }),
    thing({ kind: 'allocation', id: allocation_id, allocation_id }),
  ];
  expect(await watched('ticket-7', items, true)).toMatchObject({ code: 0, id: allocation_id });
});

test('residue and findings lead to their machine', async () => {
  expect(await watched('res_1', [thing({ kind: 'residue', id: 'res_1' })])).toMatchObject({ code: 0, id: 'node_1' });
});

test('several are named, so that one can be chosen', async () => {
  const two = await watched('web', [thing({}), thing({ id: 'node_2', node_id: 'node_2', status: 'failed' })]);
  expect(two).toMatchObject({ code: 2, id: undefined });
  expect(two.stderr).toContain('web names several things');
  expect(two.stderr).toContain('node_1 (node, ready), node_2 (node, failed)');
});

test('what nobody has, and a request that touched nothing, are said to be that: exit 1', async () => {
  const nothing = await watched('web', []);
  expect(nothing).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing is known about web') });
  const denied = await watched('ticket-8', [], true);
  expect(denied).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('ticket-8 was a request that touched no machine'),
  });
});
