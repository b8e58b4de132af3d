/** A primary PostgreSQL and a streaming standby, for tests of a failover. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { ensureCluster, readPassword, superuser } from '../../src/store/pg/embedded/cluster.ts';
import { choosePlacement, type Placement } from '../../src/store/pg/embedded/placement.ts';
import { isProcessAlive, stopPostmaster } from '../../src/store/pg/embedded/postmaster.ts';
import { freePort } from './free-port.ts';
import { signalPostgres, startPostgres } from './postgres-process.ts';
import { until } from './until.ts';

export interface PairedServer {
  /** Only this server. */
  url: string;
  /** `host:port`. */
  address: string;
  /** Every connection breaks, and new ones are refused. */
  kill(): Promise<void>;
  /** Queries hang, but no connection breaks. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Ends the standby's recovery; it accepts writes when this resolves. */
  promote(): Promise<void>;
  query<R extends object>(text: string): Promise<R[]>;
}

export interface PostgresPair {
  primary: PairedServer;
  standby: PairedServer;
  /** Lists both servers, the primary first. */
  url: string;
}

const replicationSettings = {
  wal_level: 'replica',
  // initdb recorded the default, and a standby refuses to start with less.
  max_wal_senders: '10',
  wal_receiver_timeout: '2s',
  wal_retrieve_retry_interval: '100ms',
  fsync: 'off',
  full_page_writes: 'off',
};

async function startServer(
  placement: Placement,
  password: string,
  settings: Record<string, string>,
): Promise<PairedServer & { port: number; stop(): Promise<void> }> {
  const port = await freePort();
  const pid = await startPostgres(placement, port, { ...replicationSettings, ...settings });
  const address = `127.0.0.1:${port}`;
  const url = `postgres://${superuser}:${password}@${address}/postgres`;
  const query = async <R extends object>(text: string): Promise<R[]> => {
    const client = new Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<R>(text)).rows;
    } finally {
      await client.end();
    }
  };
  return {
    port,
    url,
    address,
    query,
    async kill() {
      await signalPostgres(pid, 'SIGKILL');
      await until('the database to be gone', () => !isProcessAlive(pid));
    },
    freeze: () => signalPostgres(pid, 'SIGSTOP'),
    thaw: () => signalPostgres(pid, 'SIGCONT'),
    async promote() {
      await query('select pg_promote(true, 60)');
    },
    async stop() {
      if (!isProcessAlive(pid)) return;
      await signalPostgres(pid, 'SIGCONT');
      await stopPostmaster(pid, systemClock);
    },
  };
}

/** One server in this directory. It stops when the test ends; the caller removes the directory. */
export async function postgresIn(dataDir: string, settings: Record<string, string> = {}): Promise<PairedServer> {
  await chmod(dataDir, 0o711);
  const placement = choosePlacement(dataDir, () => {});
  await ensureCluster(placement, false);
  const server = await startServer(placement, await readPassword(placement), settings);
  onTestFinished(() => server.stop());
  return server;
}

/** The standby starts from a copy of the cluster that was made before the primary first started. */
export async function postgresPair(): Promise<PostgresPair> {
  const dataDir = await mkdtemp(join(tmpdir(), 'slipway-postgres-pair-'));
  const runningServers: { stop(): Promise<void> }[] = [];
  let clusters: string[] = [];
  onTestFinished(async () => {
    for (const server of runningServers) await server.stop();
    for (const path of [...clusters, dataDir]) await rm(path, { recursive: true, force: true });
  });
  // When the tests run as root, PostgreSQL runs as another user, which must enter the directory.
  await chmod(dataDir, 0o711);
  const first = choosePlacement(dataDir, () => {});
  const second = { ...first, clusterDir: `${first.clusterDir}-standby` };
  clusters = [first.clusterDir, second.clusterDir];
  await ensureCluster(first, false);
  await promisify(execFile)('cp', ['-a', first.clusterDir, second.clusterDir]);
  await writeFile(join(second.clusterDir, 'standby.signal'), '');
  const password = await readPassword(first);

  const primary = await startServer(first, password, {});
  runningServers.push(primary);
  const source = `host=127.0.0.1 port=${primary.port} user=${superuser} password=${password} application_name=standby`;
  const standby = await startServer(second, password, { primary_conninfo: source });
  runningServers.push(standby);
  await until('the standby to stream', async () => {
    const rows = await primary.query(`select from pg_stat_replication where state = 'streaming'`);
    return rows.length > 0;
  });
  const account = `${superuser}:${password}`;
  return { primary, standby, url: `postgres://${account}@${primary.address},${standby.address}/postgres` };
}
