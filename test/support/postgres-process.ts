/** Starts and signals PostgreSQL servers of tests on an existing cluster. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { postgresOf } from '../../src/store/pg/embedded/binaries.ts';
import { environment } from '../../src/store/pg/embedded/cluster.ts';
import type { Placement } from '../../src/store/pg/embedded/placement.ts';
import { findPostmaster } from '../../src/store/pg/embedded/postmaster.ts';
import { type Settings, serverArguments } from '../../src/store/pg/embedded/settings.ts';
import { until } from './until.ts';

async function readChildPids(pid: number): Promise<number[]> {
  const pids: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    // The process may exit meanwhile.
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    if (Number(stat.replace(/^.*\) /s, '').split(' ')[1]) === pid) pids.push(Number(name));
  }
  return pids;
}

/** Ignores a process that has exited. */
function signalIfAlive(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/**
 * Signals the postmaster first, so that it starts no child that misses the signal. For SIGKILL the
 * postmaster is first only stopped, because the children of a dead process cannot be listed.
 */
export async function signalPostgres(pid: number, name: NodeJS.Signals): Promise<void> {
  process.kill(pid, name === 'SIGKILL' ? 'SIGSTOP' : name);
  for (const child of await readChildPids(pid)) signalIfAlive(child, name);
  if (name === 'SIGKILL') process.kill(pid, name);
}

/** Resolves to the process id when the server accepts connections. */
export async function startPostgres(
  { clusterDir, binaries, account }: Placement,
  port: number,
  settings: Settings,
): Promise<number> {
  const child = spawn(postgresOf(binaries), serverArguments(clusterDir, port, settings), {
    cwd: '/',
    env: environment,
    stdio: 'ignore',
    ...(account && { uid: account.uid, gid: account.gid }),
  });
  await once(child, 'spawn');
  return until('the database to accept connections', async () => {
    if (child.exitCode !== null) throw new Error(`PostgreSQL exited with ${child.exitCode}`);
    const postmaster = findPostmaster(clusterDir);
    return postmaster?.isReady ? postmaster.pid : undefined;
  });
}
