/** A machine keeps its tenant, its status and its command while its agent is killed or upgraded. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { listProcesses } from '../../../src/agent/process/process-table.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const bundle = fileURLToPath(new URL('../../../dist/agent.mjs', import.meta.url));

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server.stop());

async function machine(name: string) {
  await server.client.call('pool-put', { params: { pool: name }, body: { driver: 'external' } });
  const { token = '' } = await server.client.call('join-token-create', { params: { pool: name } });
  const dir = await mkdtemp(join(tmpdir(), 'slipway-test-agent-'));
  const pidFile = join(dir, 'pid');
  const command = ['/bin/sh', '-c', `echo $$ >> ${pidFile}; trap "exit 0" TERM; while :; do sleep 0.05; done`];
  const start = () => {
    const args = [bundle, '--server', server.url, '--name', name, '--dir', dir, '--', ...command];
    return spawn(process.execPath, args, { stdio: 'ignore', env: { ...process.env, SLIPWAY_JOIN_TOKEN: token } });
  };
  let agent: ChildProcess = start();
  const end = async (signal: NodeJS.Signals) => {
    if (agent.exitCode !== null || agent.signalCode !== null) return;
    const ended = once(agent, 'exit');
    agent.kill(signal);
    await ended;
  };
  onTestFinished(async () => {
    await end('SIGINT');
    await rm(dir, { recursive: true, force: true });
  });
  return {
    end,
    start() {
      agent = start();
    },
    pids: async () => (existsSync(pidFile) ? (await readFile(pidFile, 'utf8')).trim().split('\n').map(Number) : []),
  };
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

/** Zombies do not count. */
const isRunning = (pid: number) => listProcesses().some((row) => row.pid === pid);

it.for(['SIGKILL', 'SIGTERM'] as const)(
  'keeps its command running while its agent is restarted after %s, and is released',
  async (signal) => {
    const name = `steady-${signal.toLowerCase()}`;
    const { end, start, pids } = await machine(name);
    const before = await waitForStatus(name, 'ready');
    const { allocation } = await server.client.call('allocation-create', { body: { pool: name } });
    await waitForAllocation(allocation.allocation_id, 'active');
    for (let restarts = 1; restarts <= 2; restarts++) {
      await end(signal);
      expect((await pids()).map(isRunning)).toEqual([true]);
      start();
      await until(
        'the agent to register again',
        async () => (await findNode(name))?.restarts === restarts || undefined,
      );
    }
    expect(await findNode(name)).toMatchObject({ status: 'ready', node_instance_id: before.node_instance_id });
    const { items } = await server.client.call('node-timeline', {
      params: { id: before.node_id },
      query: { limit: 500, order: 'oldest' },
    });
    const causes = items.flatMap(({ kind, data }) => (kind.startsWith('node.') && data.by ? [String(data.by)] : []));
    for (const rule of ['goodbye', 'liveness', 'degraded']) expect(causes).not.toContain(rule);
    expect(items.map(({ kind }) => kind)).not.toContain('command_ended');

    const [pid = 0] = await pids();
    await server.client.call('allocation-release', { params: { id: allocation.allocation_id } });
    await waitForAllocation(allocation.allocation_id, 'released');
    expect(isRunning(pid)).toBe(false);
  },
);
