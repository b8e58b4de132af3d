/**
 * Starts Docker's own daemon from unpacked packages. Needs root. The daemon leaves the host's
 * network alone, because containers use `network: host`.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { until } from '../until.ts';
import { type StartEngine, startEngine } from './engine.ts';

/**
 * By default Docker's containers stop with the daemon. With `live_restore` they keep running, as
 * Podman's do.
 */
export interface DockerdOptions {
  live_restore: boolean;
}

const pidFile = (directory: string) => join(directory, 'docker.pid');
const containerdPidFile = (directory: string) => join(directory, 'exec', 'containerd', 'containerd.pid');

const noNetwork = ['--bridge=none', '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'];

/**
 * `packages` is the directory of the unpacked packages. Docker accepts plain HTTP from a registry
 * on loopback without a setting.
 */
export const dockerdIn =
  (packages: string, { live_restore }: DockerdOptions): StartEngine =>
  () =>
    startEngine({
      name: 'dockerd',
      launch(directory, socket) {
        const programs = ['usr/sbin', 'usr/bin'].map((each) => join(packages, each));
        const paths = [
          ...['--data-root', join(directory, 'data')],
          ...['--exec-root', join(directory, 'exec')],
          ...['--pidfile', pidFile(directory)],
          ...['--host', `unix://${socket}`],
        ];
        const args = [...paths, ...noNetwork, `--live-restore=${live_restore}`, '--log-level=warn'];
        return spawn('dockerd', args, {
          // dockerd looks up containerd, its shim and runc on the path.
          env: { ...process.env, PATH: [...programs, process.env.PATH].join(delimiter) },
          stdio: ['ignore', 'ignore', 'pipe'],
        });
      },
      async afterKill(directory) {
        // The kernel kills containerd together with dockerd. A daemon that starts before containerd
        // has exited would adopt it.
        const pid =
          existsSync(containerdPidFile(directory)) && readFileSync(containerdPidFile(directory), 'utf8').trim();
        if (pid) await until('containerd to exit', () => !existsSync(`/proc/${pid}`));
        rmSync(pidFile(directory), { force: true });
        rmSync(containerdPidFile(directory), { force: true });
      },
    });
