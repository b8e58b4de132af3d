/**
 * A PostgreSQL for one scenario. A test can freeze it (its processes are stopped) or stop and
 * restart it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { postgresOf } from '../../../src/store/pg/embedded/binaries.ts';
import { environment } from '../../../src/store/pg/embedded/cluster.ts';
import { startEmbeddedPostgres } from '../../../src/store/pg/embedded/embedded.ts';
import { choosePlacement } from '../../../src/store/pg/embedded/placement.ts';
import { findPostmaster, isProcessAlive, stopPostmaster } from '../../../src/store/pg/embedded/postmaster.ts';
import { serverArguments } from '../../../src/store/pg/embedded/settings.ts';
import { until } from '../../support/until.ts';

export interface OwnPostgres {
  url: string;
  /** Queries hang, but no connection breaks. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Every connection breaks, and new ones are refused. */
  stop(): Promise<void>;
  startAgain(): Promise<void>;
  end(): Promise<void>;
}

async function childrenOf(pid: number): Promise<number[]> {
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

export async function ownPostgres(): Promise<OwnPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), 'slipway-own-postgres-'));
  // When the tests run as root, PostgreSQL runs as another user, which must enter the directory.
  await chmod(dataDir, 0o711);
  // The default settings of the product, under which acknowledged writes survive a crash.
  const settings = {};
  const first = await startEmbeddedPostgres({ dataDir, clock: systemClock, settings });
  const placement = choosePlacement(dataDir, () => {});
  const port = Number(new URL(first.url).port);
  let { pid } = first;

  const signal = async (name: NodeJS.Signals) => {
    // Signal the postmaster first, so that it starts no child that misses the signal.
    process.kill(pid, name);
    for (const child of await childrenOf(pid)) signalIfAlive(child, name);
  };
  const stopForGood = async () => {
    if (isProcessAlive(pid)) {
      await signal('SIGCONT');
      await stopPostmaster(pid, systemClock);
    }
    await rm(placement.clusterDir, { recursive: true, force: true });
    await rm(dataDir, { recursive: true, force: true });
  };
  let ending: Promise<void> | undefined;
  const end = () => (ending ??= stopForGood());
  // A test that times out never reaches its own clean-up, and the database must not outlive it.
  onTestFinished(end);

  return {
    url: first.url,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    async stop() {
      process.kill(pid, 'SIGQUIT');
      await until('the database to stop', () => !isProcessAlive(pid));
    },
    async startAgain() {
      const child = spawn(postgresOf(placement.binaries), serverArguments(placement.clusterDir, port, settings), {
        cwd: '/',
        env: environment,
        stdio: 'ignore',
        ...(placement.account && { uid: placement.account.uid, gid: placement.account.gid }),
      });
      await once(child, 'spawn');
      const postmaster = await until('the database to accept connections', () => {
        const candidate = findPostmaster(placement.clusterDir);
        return candidate?.ready ? candidate : undefined;
      });
      pid = postmaster.pid;
    },
    end,
  };
}
