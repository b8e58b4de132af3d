/** `slipway explain` against a scripted server. */
import { beforeEach, describe, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import {
  sampleAllocation,
  sampleIds,
  sampleNode,
  sampleOperation,
  samplePool,
  sampleProgress,
} from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleExplanation } from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set(sampleIds.node_id, sampleNode({ status: 'offline', name: 'gpu-3' }));
  server.on('node-explain', () => ({ body: sampleExplanation() }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('explains a node', async () => {
  const { code, stdout } = await slipway('explain', sampleIds.node_id);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^${sampleIds.node_id}  gpu-3  offline for \\d+d\\n  Silent; it can return`));
  expect(stdout).toMatch(new RegExp(`slipway act ${sampleIds.node_id} extend-deadline --seconds 10m --reason "…"`));
});
test('lists the available actions of an allocation whose machine is retired', async () => {
  server.allocations.set(sampleIds.allocation_id, sampleAllocation({ status: 'failed' }));
  server.nodes.set(sampleIds.node_id, sampleNode({ status: 'retired' }));
  const retry = { action: 'retry', does: 'tries again', open: true, why_not: null } as const;
  server.on('allocation-actions', () => ({ body: { items: [retry] } }));
  const { stdout } = await slipway('explain', sampleIds.allocation_id);
  expect(stdout).toMatch(/about the allocation\n.*\n.*slipway act alloc_\S+ retry --reason/);
  expect((await slipway('explain', sampleIds.node_id)).stdout).not.toContain('about the allocation');
});
test('names the allocation or operation, then explains its machine', async () => {
  server.allocations.set(sampleIds.allocation_id, sampleAllocation({ status: 'failed', reason: 'its node failed' }));
  server.operations.set(sampleIds.workflow_id, sampleOperation());
  const { stdout } = await slipway('explain', sampleIds.allocation_id);
  expect(stdout).toMatch(
    new RegExp(
      `^${sampleIds.allocation_id} is failed: its node failed\\nIts machine is ${sampleIds.node_id}:\\n\\n${sampleIds.node_id}`,
    ),
  );
  expect((await slipway('explain', sampleIds.workflow_id)).stdout).toContain(`${sampleIds.workflow_id} is running\n`);
  expect(server.callsOf('node-explain').map(({ params }) => params.id)).toEqual([sampleIds.node_id, sampleIds.node_id]);
});
test('prints the explanation as the server sent it with --json', async () => {
  const { stdout } = await slipway('explain', sampleIds.node_id, '--json');
  expect(JSON.parse(stdout)).toEqual(sampleExplanation());
});
describe('without a machine', () => {
  const waiting = sampleAllocation({
    status: 'requested',
    node_id: null,
    progress: sampleProgress({ message: 'Waiting for a free machine in the pool, behind 2 others' }),
  });
  beforeEach(() => {
    server.allocations.set(sampleIds.allocation_id, waiting);
    server.operations.set(sampleIds.workflow_id, sampleOperation({ node_id: null }));
    server.on('pool-get', () => ({ body: samplePool({ driver: 'external', nodes: { live: 1, free: 0 } }) }));
    const items = [{ pool: 'local', zone: null, status: 'ready', nodes: 1, held: 0 }];
    server.on('fleet-count', () => ({ body: { items } }));
    const release = { action: 'release', does: 'gives it back', open: true, why_not: null };
    server.on('allocation-actions', () => ({ body: { items: [release] } }));
  });
  test.for(['allocation_id', 'workflow_id'] as const)(
    'says what a waiting allocation waits for, by its %s',
    async (by) => {
      const { code, stdout, stderr } = await slipway('explain', sampleIds[by]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const text = stdout.replaceAll(/\s+/g, ' ');
      expect(text).toContain('Now: Waiting for a free machine in the pool, behind 2 others.');
      expect(text).toContain('Pool local has 1 machine: 1 is held by other allocations.');
      expect(stdout).toMatch(/slipway join-token create local\n/);
      expect(stdout).toMatch(/slipway act alloc_\S+ release --reason/);
    },
  );
  test('leaves out the pool for a tenant, and prints the allocation with --json', async () => {
    server.refuse('pool-get', { code: 'scope_insufficient', status: 403 });
    const { code, stdout } = await slipway('explain', sampleIds.allocation_id);
    expect(code).toBe(0);
    expect(stdout).toContain('Now: Waiting for a free machine');
    expect(JSON.parse((await slipway('explain', sampleIds.allocation_id, '--json')).stdout)).toEqual(waiting);
  });
  test('fails if the server fails to count the fleet', async () => {
    server.refuse('fleet-count', { code: 'internal', status: 500 });
    expect((await slipway('explain', sampleIds.allocation_id)).code).not.toBe(0);
  });
  test('says what happened to an allocation that ended without a machine', async () => {
    server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
    server.allocations.set(sampleIds.allocation_id, { ...waiting, status: 'failed', reason: 'no machine in time' });
    const { code, stdout } = await slipway('explain', sampleIds.allocation_id);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('no machine in time') });
  });
  test('fails for an operation that has neither an allocation nor a machine: exit 1', async () => {
    server.operations.set(sampleIds.workflow_id, sampleOperation({ node_id: null, allocation_id: null }));
    const { code, stdout, stderr } = await slipway('explain', sampleIds.workflow_id);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/has no machine yet, so there is nothing to explain\n {2}It is running\.\n.*slipway watch/);
  });
});
test.for([
  ['operation', 'workflow_id'],
  ['allocation', 'allocation_id'],
] as const)('names the timeline of an %s that ended without a machine', async ([kind, by]) => {
  const finished_at = '2026-01-01T12:00:00.000Z';
  const operation = sampleOperation({ node_id: null, allocation_id: null, status: 'cancelled', finished_at });
  server.operations.set(sampleIds.workflow_id, operation);
  server.allocations.set(sampleIds.allocation_id, sampleAllocation({ node_id: null, status: 'released' }));
  const { code, stderr } = await slipway(kind === 'operation' ? 'explain' : 'logs', sampleIds[by]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/ended without a machine, so there (is nothing to explain|are no logs)\n/);
  expect(stderr).toContain(`timeline ${sampleIds[by]}`);
  expect(stderr).not.toContain('watch');
});
test('refuses an unknown id: exit 4', async () => {
  server.refuse('node-explain', { code: 'node_not_found' });
  const { code, stderr } = await slipway('explain', 'node_nope');
  expect(code).toBe(4);
  expect(stderr).toMatch(/Node not found\n.*\n.*slipway nodes --all/);
});
