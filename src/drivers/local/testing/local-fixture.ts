/**
 * The fixture of the local driver's tests: a temporary directory of nodes, and functions that
 * inspect processes without the driver.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { pause, systemClock } from '../../../base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../base/ids.ts';
import type { DriverFixture } from '../../conformance.ts';
import type { DriverTarget, EnsureTarget } from '../../driver.ts';
import { createLocalDriver, type LocalDriverOptions } from '../local-driver.ts';
import type { LocalSpec } from '../spec.ts';

export const standInAgent = [process.execPath, fileURLToPath(new URL('stand-in-agent.ts', import.meta.url))];

export interface LocalFixture extends DriverFixture {
  nodes_dir: string;
  options: LocalDriverOptions;
  directory(target: DriverTarget): string;
  /** Lists the pids of all running processes that have this instance in their environment. */
  pids(target: DriverTarget): Promise<number[]>;
  /** The installation of the targets that `withSpec` makes; no other test uses it. */
  installation_id: string;
  withSpec(spec: LocalSpec): EnsureTarget;
  file(target: DriverTarget, name: string): string;
  /** Returns the path of a file in the working directory of set-up, command and clean. */
  work(target: DriverTarget, name: string): string;
  /** Resolves when the set-up has ended and the command runs. */
  ready(target: DriverTarget): Promise<void>;
}

/** Polls until the condition is true; fails the test after 15 s. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const give_up_ms = systemClock.monotonicMs() + 15_000;
  while (!(await condition())) {
    if (systemClock.monotonicMs() > give_up_ms) expect.fail(`timed out waiting for: ${what}`);
    await pause(systemClock, 10);
  }
}

async function readTextOrEmpty(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

/** A zombie has ended, even if its parent has not reaped it yet. */
export async function isAlive(pid: number): Promise<boolean> {
  const stat = await readTextOrEmpty(`/proc/${pid}/stat`);
  return stat !== '' && !stat.slice(stat.lastIndexOf(')')).startsWith(') Z');
}

/** During an exec a process has neither environment nor arguments, so read it again. */
async function environOf(pid: number): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const environ = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => null);
    if (environ !== '') return environ ?? '';
    if ((await readTextOrEmpty(`/proc/${pid}/cmdline`)) !== '') break;
    await pause(systemClock, 5);
  }
  return readTextOrEmpty(`/proc/${pid}/environ`);
}

async function pidsWith(variable: string): Promise<number[]> {
  const pids: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const environ = await environOf(Number(name));
    if (!environ.split('\0').includes(variable)) continue;
    if (await isAlive(Number(name))) pids.push(Number(name));
  }
  return pids;
}

/** Signals a process unless it has ended meanwhile. */
export function signal(pid: number, name: NodeJS.Signals): void {
  if (existsSync(`/proc/${pid}`)) process.kill(pid, name);
}

export async function localFixture(options: Partial<LocalDriverOptions> = {}): Promise<LocalFixture> {
  const nodes_dir = join(await realpath(await mkdtemp(join(tmpdir(), 'slipway-local-'))), 'nodes');
  const installation_id = `installation-${randomBytes(6).toString('hex')}`;
  const targets: EnsureTarget[] = [];
  const complete = { nodes_dir, agent_command: standInAgent, host_id: 'host-a', clock: systemClock, ...options };
  const open = () => createLocalDriver(complete);

  const target = (owner: string): EnsureTarget => {
    const one: EnsureTarget = {
      installation_id: owner,
      pool: 'local',
      node_id: newNodeId(systemClock),
      node_instance_id: newNodeInstanceId(systemClock),
      name: 'node-1',
      zone: null,
      spec: {},
      workflow_id: newWorkflowId(systemClock),
      correlation_id: newCorrelationId(),
      state: {},
      bootstrap: {
        server_url: 'http://127.0.0.1:1',
        enrollment_token: 'enrolment-secret',
        deadline_at: '2100-01-01T00:00:00Z',
        requires: [{ name: 'shell', check: 'true' }],
      },
    };
    targets.push(one);
    return one;
  };
  const directory = ({ node_instance_id }: DriverTarget) => join(nodes_dir, node_instance_id);
  const file = (of: DriverTarget, name: string) => join(directory(of), name);
  const pids = ({ node_instance_id }: DriverTarget) => pidsWith(`SLIPWAY_NODE_INSTANCE_ID=${node_instance_id}`);
  /** Repeats the kill, because a process may start another one just before it is killed. */
  const killMachine = (of: DriverTarget) =>
    until(async () => {
      const living = await pids(of);
      for (const pid of living) signal(pid, 'SIGKILL');
      return living.length === 0;
    }, 'the killed machine has ended');
  /** Counts agents, not their commands: one machine is one agent. */
  const agents = async (of: DriverTarget) => {
    const found: number[] = [];
    for (const pid of await pids(of)) {
      if ((await readTextOrEmpty(`/proc/${pid}/cmdline`)).includes('--config\0')) found.push(pid);
    }
    return found;
  };
  const marker = ({ installation_id, pool, node_id, node_instance_id }: DriverTarget) =>
    JSON.stringify({ installation_id, pool, node_id, node_instance_id });
  const leaveDirectory = async (of: DriverTarget, text?: string) => {
    await mkdir(directory(of), { recursive: true });
    if (text !== undefined) await writeFile(file(of, 'slipway.json'), text);
  };

  return {
    nodes_dir,
    options: complete,
    open,
    target,
    directory,
    file,
    work: (of, name) => join(directory(of), 'work', name),
    ready: (of) => until(() => existsSync(file(of, 'stand-in.ready')), 'the stand-in is ready'),
    pids,
    installation_id,
    withSpec: (spec) => Object.assign(target(installation_id), { spec }),
    machines: async (of) => (await agents(of)).length,
    killMachine,
    partialLaunches: [
      { name: 'a directory without a marker', leave: (of) => leaveDirectory(of) },
      { name: 'an incomplete marker', leave: (of) => leaveDirectory(of, '{"installation_id"') },
      { name: 'a marked directory, nothing launched', leave: (of) => leaveDirectory(of, marker(of)) },
      {
        name: 'a running agent without a launch record',
        async leave(of) {
          await open().ensure(of);
          await rm(file(of, 'launch.json'));
          of.state = {};
        },
      },
      {
        name: 'an agent that was launched and killed',
        async leave(of) {
          await open().ensure(of);
          await killMachine(of);
          of.state = {};
        },
      },
    ],
    beforeProof: async () => {},
    async close() {
      for (const one of targets) await killMachine(one);
      // A launcher may still be recording how its agent ended.
      await rm(join(nodes_dir, '..'), { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
    },
  };
}

/** Starts a process that outlives its parent. */
export function plant(argv: string[], env: Record<string, string>, cwd = '/'): number {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { env: { PATH: process.env.PATH, ...env }, cwd, detached: true, stdio: 'ignore' });
  child.unref();
  return child.pid ?? expect.fail('the process was not started');
}
