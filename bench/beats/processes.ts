/** Starts servers in their own processes, so that the CPU time of each can be measured. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { pause, systemClock } from '../../src/base/clock.ts';
import { freePort } from '../../test/support/free-port.ts';
import { registerCleanup } from '../harness/leftovers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface RunningServer {
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

async function serve(command: string, args: string[], port: number): Promise<RunningServer> {
  const cleanUp = registerCleanup(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const child: ChildProcess = spawn(command, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  while (!(await acceptsConnections(port))) {
    if (child.exitCode !== null) throw new Error(`${command} exited with ${child.exitCode}`);
    await pause(systemClock, 20);
  }
  return {
    pid: child.pid ?? 0,
    port,
    async stop() {
      child.kill('SIGTERM');
      await exited;
      await cleanUp();
    },
  };
}

/**
 * Starts the baseline. Its young generation has the same size as the server's, so that garbage
 * collection does not cause part of the difference.
 */
export async function serveRaw(): Promise<RunningServer> {
  const port = await freePort();
  return serve(process.execPath, ['--max-semi-space-size=64', 'bench/beats/raw-server.ts', String(port)], port);
}

/**
 * For benchmarks whose agents send faster than the assigned interval: with a target rate this high,
 * the size of the fleet never lengthens the intervals.
 */
export const unlimitedRateArguments = ['--beat-rate', '10000000'];

export async function serveSlipway(data_dir: string, extraArgs: string[]): Promise<RunningServer> {
  const port = await freePort();
  return serve(
    'bin/slipway',
    ['serve', '--port', String(port), '--data-dir', data_dir, '--log-level', 'error', ...extraArgs],
    port,
  );
}
