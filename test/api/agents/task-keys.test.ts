/** The key that signs tasks rotates while a real agent and two replicas run. */
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { readStoredState } from '../../../src/agent/state/state-file.ts';
import { type AgentBench, type AgentProcess, agentBench } from '../../../src/agent/testing/agent-process.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { checkServerIdentity } from '../../../src/doctor/server-checks.ts';
import { type SpawnedServer, spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const args = ['--task-key-overlap-seconds', '3'];
let server: SpawnedServer;
let secondServer: SpawnedServer;
let bench: AgentBench;
beforeAll(async () => {
  server = await spawnServer({ args });
  secondServer = await spawnServer({ beside: server, args });
  bench = agentBench();
});
afterAll(async () => {
  await bench.clear();
  await secondServer.stop();
  await server.stop();
});

interface StartedAgent {
  node_id: string;
  process: AgentProcess;
}

async function startAgent(name: string): Promise<StartedAgent> {
  const heartbeat = { interval_seconds: 1, stale_after_seconds: 3600 };
  await server.client.call('pool-put', { params: { pool: name }, body: { driver: 'external', heartbeat } });
  const { enrollment_token, node } = await server.client.call('node-create', { body: { pool: name, name } });
  const { node_id, node_instance_id } = node;
  const config = { server_url: server.url, enrollment_token, node_id, node_instance_id };
  const process = bench.start(bench.dir(), config);
  await until('the agent to register', () => readStoredState(process.dir)?.identity != null, { seconds: 30 });
  return { node_id, process };
}

/** Whether the agent runs a task that is signed with the current key. */
async function runsTask({ node_id: id }: StartedAgent): Promise<boolean> {
  const { task_id } = await server.client.call('node-ping', { params: { id }, body: { within_seconds: 20 } });
  const { over, checks } = await server.client.call('node-ping-get', { params: { id, task_id }, query: { wait: 25 } });
  return over && checks.every(({ ok }) => ok !== false);
}

const readSigningKey = async ({ client }: SpawnedServer) =>
  (await client.call('health-get', { query: { nonce: '0123456789abcdef0123456789abcdef' } })).identity;
const kidsOf = ({ process }: StartedAgent) => (readStoredState(process.dir)?.task_keys ?? []).map(({ kid }) => kid);

const rotate = () => server.client.call('task-key-rotate', {});
const waitForSigningKey = (kid: string) =>
  until(
    'both replicas to sign with the new key',
    async () => (await readSigningKey(server))?.kid === kid && (await readSigningKey(secondServer))?.kid === kid,
    { seconds: 30 },
  );
const waitUntilAfter = (at: string) =>
  until(`the time ${at}`, () => systemClock.nowMs() > Date.parse(at), { seconds: 30 });

it('loses no task of a real agent over two rotations, and drops each retired key', async () => {
  const agent = await startAgent('rotating');
  expect(await runsTask(agent)).toBe(true);
  for (const round of ['first', 'second']) {
    const keyBefore = await readSigningKey(secondServer);
    const { kid, former_kid, former_accepted_until } = await rotate();
    expect(keyBefore?.kid).toBe(former_kid);
    await expect(rotate()).rejects.toMatchObject({ problem: { code: 'task_key_pending' } });
    await until('the agent to know the announced key', () => kidsOf(agent).includes(kid), { seconds: 30 });
    expect((await readSigningKey(server))?.kid, 'the signing key after the announcement').toBe(former_kid);
    expect(await runsTask(agent), `${round}: before the new key signs`).toBe(true);
    await waitForSigningKey(kid);
    expect(await runsTask(agent), `${round}: signed by the new key`).toBe(true);
    await waitUntilAfter(former_accepted_until);
    await until('the agent to drop the retired key', () => !kidsOf(agent).includes(former_kid), { seconds: 30 });
    expect(await runsTask(agent), `${round}: after the former key was retired`).toBe(true);
  }
  expect(agent.process.output()).not.toContain('task refused');
  const { items } = await server.client.call('audit-list', {});
  expect(items.filter(({ kind }) => kind === 'task_key.rotated').length).toBe(2);
}, 120_000);

it('serves an agent that was stopped during a whole rotation, and its doctor recognizes the server', async () => {
  const agent = await startAgent('away');
  onTestFinished(() => agent.process.kill('SIGCONT'));
  const known_keys = (readStoredState(agent.process.dir)?.task_keys ?? []).map(({ public_key }) => public_key);
  agent.process.kill('SIGSTOP');
  const { kid, former_kid, former_accepted_until } = await rotate();
  await waitForSigningKey(kid);
  await waitUntilAfter(former_accepted_until);
  expect(kidsOf(agent)).not.toContain(kid);
  const target = {
    url: new URL(secondServer.url),
    ca: null,
    known_keys,
    caller: { kind: 'agent', credential: null } as const,
    correlation_id: 'c',
    clock: systemClock,
    signal: new AbortController().signal,
    timeout_seconds: 10,
  };
  expect(await checkServerIdentity(target)).toMatchObject({ state: 'ok' });
  const unknownKeys = ['MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='];
  expect(await checkServerIdentity({ ...target, known_keys: unknownKeys })).toMatchObject({
    code: 'ingress_other_installation',
  });
  agent.process.kill('SIGCONT');
  expect(await runsTask(agent)).toBe(true);
  expect(kidsOf(agent)).toContain(kid);
  expect(kidsOf(agent)).not.toContain(former_kid);
  // The retired key endorsed the current key, so the agent accepts the current key.
  expect(agent.process.output()).not.toMatch(/task refused|no known key endorses/);
}, 90_000);
