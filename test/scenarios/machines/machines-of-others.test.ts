/** External pools: machines join by token, serve, leave, return, and are retired with proof. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const bundle = fileURLToPath(new URL('../../../dist/agent.mjs', import.meta.url));

let server: TestServer;
const agents: ChildProcess[] = [];
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(async () => {
  for (const agent of agents) agent.kill('SIGKILL');
  await server.stop();
});

const newDirectory = () => mkdtemp(join(tmpdir(), 'slipway-test-agent-'));

async function startAgent(pool: string, name: string): Promise<ChildProcess> {
  const { token = '' } = await server.client.call('join-token-create', { params: { pool } });
  return startAgentWith(token, name, await newDirectory());
}

function startAgentWith(token: string, name: string, dir: string): ChildProcess {
  const args = [bundle, '--server', server.url, '--name', name, '--dir', dir];
  const agent = spawn(process.execPath, args, { stdio: 'ignore', env: { ...process.env, SLIPWAY_JOIN_TOKEN: token } });
  agents.push(agent);
  return agent;
}

const findNode = async (name: string) =>
  (await server.client.call('node-list', { query: { q: name } })).items.find((node) => node.name === name);

const waitForStatus = (name: string, status: string) =>
  until(`${name} to be ${status}`, async () => {
    const node = await findNode(name);
    return node?.status === status ? node : undefined;
  });

const waitForAllocation = (id: string, status: string) =>
  until(`the allocation to be ${status}`, async () => {
    const allocation = await server.client.call('allocation-get', { params: { id } });
    return allocation.status === status ? allocation : undefined;
  });

/** A timeline shows a fact once no older transaction is open, a moment after the fact. */
const waitForFacts = (id: string, kind: string) =>
  until(`${kind} on the timeline`, async () => {
    const query = { allocation_id: id, limit: 500 };
    const facts = (await server.client.call('timeline-get', { query })).items.filter((fact) => fact.kind === kind);
    return facts.length > 0 ? facts : undefined;
  });

it('serves two allocations with one machine in a pool that reuses machines, proven clean in between', async () => {
  await server.client.call('pool-put', { params: { pool: 'lab' }, body: { driver: 'external' } });
  await startAgent('lab', 'rack-1');
  const node = await waitForStatus('rack-1', 'ready');
  for (const round of ['first', 'second']) {
    const { allocation } = await server.client.call('allocation-create', { body: { pool: 'lab', name: round } });
    expect((await waitForAllocation(allocation.allocation_id, 'active')).node_id).toBe(node.node_id);
    await server.client.call('allocation-release', { params: { id: allocation.allocation_id } });
    await waitForAllocation(allocation.allocation_id, 'released');
    expect(await waitForFacts(allocation.allocation_id, 'proof.clean')).toHaveLength(1);
  }
  expect(await waitForStatus('rack-1', 'ready')).toMatchObject({ node_id: node.node_id, occupancy: 'free' });
});

it('retires a machine in a pool without reuse, with proof that its credential is revoked', async () => {
  await server.client.call('pool-put', { params: { pool: 'guests' }, body: { driver: 'external', reuse: false } });
  await startAgent('guests', 'guest-1');
  await waitForStatus('guest-1', 'ready');
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'guests' } });
  await waitForAllocation(allocation.allocation_id, 'active');
  await server.client.call('allocation-release', { params: { id: allocation.allocation_id } });
  await waitForAllocation(allocation.allocation_id, 'released');
  await waitForStatus('guest-1', 'retired');
  await waitForFacts(allocation.allocation_id, 'proof.revoked');
});

it('lets an agent that lost its credential continue as the same machine by its key', async () => {
  await server.client.call('pool-put', { params: { pool: 'keyed' }, body: { driver: 'external' } });
  const { token = '' } = await server.client.call('join-token-create', {
    params: { pool: 'keyed' },
    body: { max_uses: 1 },
  });
  const dir = await newDirectory();
  const first = startAgentWith(token, 'keyed-1', dir);
  const before = await waitForStatus('keyed-1', 'ready');
  const { allocation } = await server.client.call('allocation-create', { body: { pool: 'keyed' } });
  await waitForAllocation(allocation.allocation_id, 'active');
  first.kill('SIGKILL');
  await once(first, 'exit');
  const path = join(dir, '.agent', 'state.json');
  const state = JSON.parse(await readFile(path, 'utf8'));
  await writeFile(path, JSON.stringify({ ...state, identity: null }));
  startAgentWith(token, 'keyed-1', dir);
  const after = await until('the agent to register again', async () => {
    const node = await findNode('keyed-1');
    return node && node.restarts > 0 && node.status === 'ready' ? node : undefined;
  });
  expect(after).toMatchObject({
    node_instance_id: before.node_instance_id,
    allocation_id: allocation.allocation_id,
  });

  // An agent with an empty directory has no key.
  const agentWithoutKey = startAgentWith(token, 'keyed-1', await newDirectory());
  const [code] = await once(agentWithoutKey, 'exit');
  expect(code).toBe(13);
  expect(await findNode('keyed-1')).toMatchObject({ node_instance_id: before.node_instance_id, status: 'ready' });
});

it('takes a machine offline at its goodbye, fails it at the deadline, and retires it after the rescue window', async () => {
  const budgets = { offline_seconds: 1, rescue_seconds: 1 };
  await server.client.call('pool-put', { params: { pool: 'visitors' }, body: { driver: 'external', budgets } });
  const agent = await startAgent('visitors', 'visitor-1');
  const node = await waitForStatus('visitor-1', 'ready');
  agent.kill('SIGTERM');
  await waitForStatus('visitor-1', 'retired');
  const rules = await until('the retirement on the timeline', async () => {
    const { items } = await server.client.call('node-timeline', {
      params: { id: node.node_id },
      query: { limit: 500, order: 'oldest' },
    });
    const causes = items.flatMap((fact) =>
      fact.kind.startsWith('node.') && fact.data.by ? [String(fact.data.by)] : [],
    );
    return causes.includes('proof') ? causes : undefined;
  });
  const inOrder = ['goodbye', 'offline-deadline', 'rescue-over', 'proof'];
  expect(rules.filter((rule) => inOrder.includes(rule))).toEqual(inOrder);
});
