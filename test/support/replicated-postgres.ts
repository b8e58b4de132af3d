/**
 * A PostgreSQL primary with a standby, behind an address that follows the primary. A failover kills
 * the primary and promotes the standby. An asynchronous standby may lack the newest commits.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, chmod, chown, cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { pause, systemClock } from '../../src/base/clock.ts';
import { ensureUnprivilegedAccount, runsAsRoot } from '../../src/store/pg/embedded/account.ts';
import { findBinaries } from '../../src/store/pg/embedded/binaries.ts';
import { freePort } from './free-port.ts';
import { signalPostgres } from './postgres-process.ts';
import { until } from './until.ts';

const settings = {
  max_connections: '200',
  max_locks_per_transaction: '256',
  wal_keep_size: '512MB',
  fsync: 'off',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
};

interface Instance {
  port: number;
  data: string;
  process: ChildProcess;
}

export interface ReplicatedOptions {
  /**
   * Holds the programs under `bin`; the account of PostgreSQL must be able to run them. By default
   * the embedded PostgreSQL is copied.
   */
  programs?: string;
  /** Commits wait for the standby, once it streams. */
  isSynchronous?: boolean;
  /** The standby streams through this process, so that `lag` can delay it. */
  canLag?: boolean;
}

export interface ReplicatedPostgres {
  /** The address of whichever instance is the primary. */
  url: string;
  /** Lists both servers. A new standby gets the port of the former primary. */
  urlOfBoth: string;
  /** Connects to the primary directly, not through the address that follows it. */
  primaryUrl(): string;
  /** Connects to the standby, which answers reads only. */
  standbyUrl(): string;
  addStandby(): Promise<void>;
  /** Waits until the standby has every commit that was made before this call. */
  catchUp(): Promise<void>;
  /**
   * From now on, the standby receives everything this much later. If the primary dies, changes on
   * their way are lost. `recovery_min_apply_delay` would only delay the replay: a promotion replays
   * everything that was received.
   */
  lag(ms: number): void;
  /** The standby receives nothing more. */
  cutOff(): Promise<void>;
  killPrimary(): Promise<void>;
  /** Resolves when the standby accepts writes. */
  promote(): Promise<void>;
  /** Kills the primary and promotes the standby. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

/** Processes of a killed server may still write for a moment. */
const remove = (path: string) => rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });

/** Writes each chunk `delayMs` after it was read, in the same order. */
function pipeLater(from: Socket, into: Socket, delayMs: () => number): void {
  let written = Promise.resolve();
  from.on('data', (chunk: Buffer) => {
    const dueMs = systemClock.monotonicMs() + delayMs();
    written = written.then(async () => {
      await pause(systemClock, dueMs - systemClock.monotonicMs());
      if (!into.destroyed) into.write(chunk);
    });
  });
}

/** Forwards each connection to the port that `target` returns. Answers can be delayed. */
async function openAddress(target: () => number, delayMs?: () => number) {
  const sockets = new Set<Socket>();
  const watch = (from: Socket, into: Socket) => {
    sockets.add(from);
    from.on('error', () => {});
    from.on('close', () => {
      sockets.delete(from);
      into.destroy();
    });
  };
  const server = createServer((near) => {
    const far = connect(target(), '127.0.0.1');
    watch(near, far);
    watch(far, near);
    near.pipe(far);
    if (delayMs) pipeLater(far, near, delayMs);
    else far.pipe(near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

export async function replicatedPostgres(options: ReplicatedOptions = {}): Promise<ReplicatedPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-replicated-'));
  // PostgreSQL refuses to run as root, and its account may not be able to enter the repository.
  const account = runsAsRoot() ? ensureUnprivilegedAccount() : undefined;
  const runAs = account ? { uid: account.uid, gid: account.gid } : {};
  await chmod(directory, 0o755);
  const programs = options.programs ?? join(directory, 'programs');
  if (!options.programs) await cp(findBinaries().directory, programs, { recursive: true, verbatimSymlinks: true });
  if (account) await chown(directory, account.uid, account.gid);
  const urlOf = (port: number) => `postgres://owner@127.0.0.1:${port}/postgres`;

  async function query<R extends object>(port: number, text: string): Promise<R[]> {
    const client = new Client({ connectionString: urlOf(port) });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query(text)).rows as R[];
    } finally {
      await client.end();
    }
  }

  const ports = [await freePort(), await freePort()] as const;

  async function start(data: string, port: number): Promise<Instance> {
    const args = Object.entries({ ...settings, port: String(port) }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    const child = spawn(join(programs, 'bin/postgres'), ['-D', data, ...args], {
      cwd: directory,
      stdio: 'ignore',
      ...runAs,
    });
    await until('PostgreSQL to answer', () => query(port, 'select 1').catch(() => undefined));
    return { port, data, process: child };
  }

  async function kill({ process: server }: Instance): Promise<void> {
    if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    await signalPostgres(server.pid, 'SIGKILL');
    await exited;
  }

  const sourceOn = (port: number) => `host=127.0.0.1 port=${port} user=owner`;

  /** Uses pg_basebackup, as an operator would, if the programs include it. */
  async function copyPrimary(data: string): Promise<void> {
    const source = sourceOn(primary.port);
    const baseBackup = join(programs, 'bin/pg_basebackup');
    if (existsSync(baseBackup)) {
      const args = ['-D', data, '-d', source, '--checkpoint=fast', '--write-recovery-conf', '--no-sync'];
      await promisify(execFile)(baseBackup, args, { cwd: directory, ...runAs });
      return;
    }
    const client = new Client({ connectionString: urlOf(primary.port) });
    await client.connect();
    await client.query(`select pg_backup_start('standby', true)`);
    // Files that vanish while they are copied are in the write-ahead log.
    await promisify(execFile)('sh', ['-c', 'cp -a "$0" "$1" 2>/dev/null || true', primary.data, data], runAs);
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
    await client.end();
    await rm(join(data, 'postmaster.pid'), { force: true });
    await writeFile(join(data, 'backup_label'), rows[0]?.labelfile ?? '');
    await writeFile(join(data, 'standby.signal'), '');
    await writeFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    if (account)
      for (const name of ['backup_label', 'standby.signal', 'postgresql.auto.conf'])
        await chown(join(data, name), account.uid, account.gid);
  }

  const waitForCommits = async () => {
    await query(primary.port, `alter system set synchronous_standby_names = '*'`);
    await query(primary.port, 'select pg_reload_conf()');
    await until('the standby to be synchronous', async () => {
      const rows = await query(primary.port, `select from pg_stat_replication where sync_state = 'sync'`);
      return rows.length > 0;
    });
  };

  const first = join(directory, 'data-0');
  execFileSync(join(programs, 'bin/initdb'), ['-D', first, '-U', 'owner', '-A', 'trust', '-E', 'UTF8', '--no-sync'], {
    cwd: directory,
    stdio: 'pipe',
    ...runAs,
  });
  let copies = 0;
  let primary = await start(first, ports[0]);
  let standby: Instance | undefined;
  let formerPrimary: Instance | undefined;
  const address = await openAddress(() => primary.port);
  let lagMs = 0;
  const replication = options.canLag
    ? await openAddress(
        () => primary.port,
        () => lagMs,
      )
    : undefined;
  const mustHaveStandby = (): Instance => {
    if (!standby) throw new Error('there is no standby');
    return standby;
  };

  async function killPrimary(): Promise<void> {
    await kill(primary);
    address.cut();
  }

  async function promote(): Promise<void> {
    const newPrimary = mustHaveStandby();
    await query(newPrimary.port, 'select pg_promote(true, 60)');
    formerPrimary = primary;
    primary = newPrimary;
    standby = undefined;
  }

  return {
    url: urlOf(address.port),
    urlOfBoth: `postgres://owner@${ports.map((port) => `127.0.0.1:${port}`).join(',')}/postgres`,
    primaryUrl: () => urlOf(primary.port),
    standbyUrl: () => urlOf(mustHaveStandby().port),
    async addStandby() {
      if (formerPrimary) await remove(formerPrimary.data);
      lagMs = 0;
      const data = join(directory, `data-${++copies}`);
      await copyPrimary(data);
      // PostgreSQL uses the last line for a setting.
      if (replication)
        await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${sourceOn(replication.port)}'\n`);
      standby = await start(data, primary.port === ports[0] ? ports[1] : ports[0]);
      if (options.isSynchronous) await waitForCommits();
    },
    async catchUp() {
      const [end] = await query<{ lsn: string }>(primary.port, 'select pg_current_wal_lsn() as lsn');
      await until('the standby to catch up', async () => {
        const [row] = await query<{ is_current: boolean }>(
          primary.port,
          `select bool_or(replay_lsn >= '${end?.lsn}') as is_current from pg_stat_replication`,
        );
        return row?.is_current;
      });
    },
    lag(ms) {
      lagMs = ms;
    },
    async cutOff() {
      const { port } = mustHaveStandby();
      await query(port, `alter system set primary_conninfo = ''`);
      await query(port, 'select pg_reload_conf()');
      await until(
        'the standby to be cut off',
        async () => (await query(primary.port, 'select 1 from pg_stat_replication')).length === 0,
      );
    },
    killPrimary,
    promote,
    async failOver() {
      await killPrimary();
      await promote();
    },
    async stop() {
      address.close();
      replication?.close();
      if (standby) await kill(standby);
      await kill(primary);
      await remove(directory);
    },
  };
}
