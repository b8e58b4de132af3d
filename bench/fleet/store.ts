/**
 * Starts the embedded PostgreSQL with the shipped settings. The database can be frozen, and it can
 * be killed with all its processes and restarted.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import { isProcessAlive } from '../../src/base/network/host.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { refuseDuringCleanup, registerCleanup, removeDirectory, sendSignal } from '../harness/leftovers.ts';
import { childrenOf } from '../harness/process-table.ts';

export interface Store {
  /** Server arguments to use this store. */
  arguments(): string[];
  ownerUrl(): string;
  /** Connects as the owner. `kill` breaks all earlier connections. */
  open(): Database;
  pid(): number;
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
  start(): Promise<void>;
  end(): Promise<void>;
}

/** Signals all processes of the database, and returns their ids. */
function signalAll({ pid: postmaster }: EmbeddedPostgres, signal: NodeJS.Signals): number[] {
  // The children of a killed postmaster get another parent, so they must be listed before.
  const knownChildren = signal === 'SIGKILL' ? childrenOf(postmaster) : undefined;
  sendSignal(postmaster, signal);
  // A stopped postmaster starts no more children, so a list made now misses none.
  const children = knownChildren ?? childrenOf(postmaster);
  for (const child of children) sendSignal(child, signal);
  return [postmaster, ...children];
}

export async function startStore(directory: string): Promise<Store> {
  let starting: Promise<EmbeddedPostgres> | undefined;
  const start = () => {
    refuseDuringCleanup();
    starting = startEmbeddedPostgres({ dataDir: directory, clock: systemClock });
    return starting;
  };
  const end = registerCleanup(async () => {
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
    ownerUrl: () => running.url,
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
