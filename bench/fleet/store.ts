/** The embedded PostgreSQL as it ships, which can be frozen, or killed with all its processes and started again. */
import { pause, systemClock } from '../../src/base/clock.ts';
import { isProcessAlive } from '../../src/base/host.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/postgres/embedded.ts';
import { childrenOf } from '../process-table.ts';
import { removeDirectory } from '../server-process.ts';

export interface Store {
  /** What a server is started with to use it. */
  arguments(): string[];
  /** Of the owner, for whoever fills and judges. A former one is void after `kill`. */
  open(): Database;
  pid(): number;
  freeze(): void;
  thaw(): void;
  kill(): Promise<void>;
  start(): Promise<void>;
  end(): Promise<void>;
}

/** One that has ended meanwhile needs no telling. */
function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

export async function startStore(directory: string): Promise<Store> {
  const start = () => startEmbeddedPostgres({ dataDir: directory, clock: systemClock });
  let running: EmbeddedPostgres = await start();
  /** The postmaster first, so that no child is born that nobody told. */
  const signal = (name: NodeJS.Signals): number[] => {
    const all = [running.pid, ...childrenOf(running.pid)];
    for (const pid of all) tell(pid, name);
    return all;
  };
  const end = async () => {
    signal('SIGCONT');
    await running.stop();
    await removeDirectory(running.clusterDir);
  };
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => end().finally(() => process.exit(1)));
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
