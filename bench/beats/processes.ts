/** Starts servers in their own processes, so that the CPU time of each can be measured. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { pause, systemClock } from '../../src/base/clock.ts';
import { freePort } from '../../test/support/free-port.ts';
import { whenOver } from '../harness/leftovers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Served {
  pid: number;
  port: number;
  stop(): Promise<void>;
}

function acceptsConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

async function serve(command: string, args: string[], port: number): Promise<Served> {
  const end = whenOver(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const child: ChildProcess = spawn(command, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  while (!(await acceptsConnections(port))) {
    if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}`);
    await pause(systemClock, 20);
  }
  return {
    pid: child.pid ?? 0,
    port,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      await end();
    },
  };
}

/**
 * Uses the same size of the young generation as the server, so that garbage collection does not
 * cause part of the difference.
 */
export async function serveRaw(): Promise<Served> {
  const port = await freePort();
  return serve(process.execPath, ['--max-semi-space-size=64', 'bench/beats/raw-server.ts', String(port)], port);
}

/** These agents ignore assigned intervals, so the server must not ask for slower heartbeats. */
export const tireless = ['--beat-rate', '10000000'];

export async function serveSlipway(data_dir: string, more: string[]): Promise<Served> {
  const port = await freePort();
  return serve(
    'bin/slipway',
    ['serve', '--port', String(port), '--data-dir', data_dir, '--log-level', 'error', ...more],
    port,
  );
}
