/** Starts servers as child processes, with npm like a user or without. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pause, systemClock } from '../../src/base/clock.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { registerCleanup, sendSignal } from './leftovers.ts';
import { listProcessIds, readOr } from './process-table.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address ? address.port : 0;
}

const stopTimeoutMs = 20_000;

export interface ServerProcess {
  url: string;
  client(): Promise<Client>;
  /** Memory of the Node process, in MB. */
  residentMb(): number;
  stop(): Promise<void>;
}

/**
 * Starts the server like a user, with `npm start`. Resolves once `/readyz` answers 200. Without a
 * database URL in `extraArgs`, the server starts its embedded database.
 */
export async function startWithNpm(data_dir: string, extraArgs: string[] = []): Promise<ServerProcess> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ['start', '--silent', '--', '--port', String(port), '--data-dir', data_dir, '--log-level', 'error'];
  args.push(...extraArgs);
  const stop = registerCleanup(async () => {
    if (group === 0) return;
    const pid = findServer(data_dir);
    // npm and its shell form their own process group. If the server is not running yet, ending that
    // group keeps the server from starting.
    sendSignal(pid ?? -group, 'SIGTERM');
    const isLate = await Promise.race([exited, pause(systemClock, stopTimeoutMs).then(() => true as const)]);
    if (isLate === true) sendSignal(-group, 'SIGKILL');
    await exited;
  });
  const child = spawn('npm', args, { cwd: root, detached: true, stdio: ['ignore', 'ignore', 'inherit'] });
  const [group, exited] = [child.pid ?? 0, once(child, 'exit')];
  while (!(await isReady(url))) {
    if (child.exitCode !== null) throw new Error(`npm start exited with ${child.exitCode}`);
    await pause(systemClock, 5);
  }
  return {
    url,
    async client() {
      const token = (await readFile(join(data_dir, 'admin.token'), 'utf8')).trim();
      return createClient({ base_url: url, token, addresses: routes });
    },
    residentMb: () => residentMb(serverPid(data_dir)),
    stop,
  };
}

export interface Replica {
  url: string;
  pid: number;
  /** Stops the server gracefully, or kills it. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/**
 * Starts the server without npm. Resolves once it is ready. `sourceDirectory` holds the version of
 * the server to start. Without a database URL in `extraArgs`, the server starts its embedded
 * database.
 */
export async function startReplica(
  data_dir: string,
  extraArgs: string[],
  environment: NodeJS.ProcessEnv,
  sourceDirectory = root,
): Promise<Replica> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ['serve', '--port', String(port), '--data-dir', data_dir, '--log-level', 'error', ...extraArgs];
  // An older server ignores this variable, and would refuse the flag.
  const env = { ...process.env, SLIPWAY_DRAIN_SECONDS: '0', ...environment };
  // Kill at once, because a frozen store would block a graceful stop.
  const kill = registerCleanup(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const command = join(sourceDirectory, 'bin/slipway');
  const child = spawn(command, args, { cwd: sourceDirectory, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  while (!(await isReady(url))) {
    if (child.exitCode !== null) throw new Error(`the server exited with ${child.exitCode}`);
    await pause(systemClock, 20);
  }
  return {
    url,
    pid: child.pid ?? 0,
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      await exited;
      await kill();
    },
  };
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

/** The child process is npm, not the server, so the server is found by its command line. */
function findServer(data_dir: string): number | undefined {
  for (const name of listProcessIds()) {
    const argv = readOr(`/proc/${name}/cmdline`, '').split('\0');
    if (argv.includes(data_dir) && argv[1]?.endsWith('main.ts')) return Number(name);
  }
  return undefined;
}

function serverPid(data_dir: string): number {
  const pid = findServer(data_dir);
  if (pid === undefined) throw new Error('the server is not running');
  return pid;
}

export const residentMb = (pid: number) =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
