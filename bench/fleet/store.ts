/**
 * The embedded PostgreSQL with shipped settings, which can be frozen, or killed with all its
 * processes and restarted.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import { isProcessAlive } from '../../src/base/network/host.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { refuseWhileEnding, removeDirectory, sendSignal, whenOver } from '../harness/leftovers.ts';
import { childrenOf } from '../harness/process-table.ts';

export interface Store {
  /** Server arguments to use this store. */
  arguments(): string[];
  /** A connection as owner. Connections from before `kill` are invalid. */
  open(): Database;
  pid(): number;
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
  start(): Promise<void>;
  end(): Promise<void>;
}

/** The postmaster first, so that it starts no child that misses the signal. */
function signalAll({ pid: postmaster }: EmbeddedPostgres, signal: NodeJS.Signals): number[] {
  const all = [postmaster, ...childrenOf(postmaster)];
  for (const pid of all) sendSignal(pid, signal);
  return all;
}

export async function startStore(directory: string): Promise<Store> {
  let starting: Promise<EmbeddedPostgres> | undefined;
  const start = () => {
    refuseWhileEnding();
    starting = startEmbeddedPostgres({ dataDir: directory, clock: systemClock });
    return starting;
  };
  const end = whenOver(async () => {
    const started = await starting;
    if (!started) return;
    signalAll(started, 'SIGCONT');
    await started.stop();
    await removeDirectory(started.clusterDir);
  });
  let running = await start();
  const signal = (name: NodeJS.Signals) => signalAll(running, name);
  return {
    arguments: () => ['--database-url', running.application_url, '--owner-database-url', running.url],
    open: () => openDatabase({ url: running.url, max_connections: 2, on_idle_error: () => {} }),
    pid: () => running.pid,
    freeze: () => void signal('SIGSTOP'),
    thaw: () => void signal('SIGCONT'),
    async kill() {
      const killed = signal('SIGKILL');
      while (killed.some(isProcessAlive)) await pause(systemClock, 5);
    },
    async start() {
      running = await start();
    },
    end,
  };
}
