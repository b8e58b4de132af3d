/**
 * Starts the embedded PostgreSQL, the default database. It runs as a separate process that outlives
 * a killed server, and the next server adopts it. A server stops PostgreSQL only if that server
 * launched it, or holds the lock on the data directory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { type Clock, pause } from '../../../base/clock.ts';
import { postgresOf } from './binaries.ts';
import { application, ensureCluster, environment, readPassword, superuser } from './cluster.ts';
import { type DirectoryLock, lockDataDirectory } from './directory-lock.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';
import { choosePlacement, type Placement } from './placement.ts';
import { findPostmaster, isProcessAlive, type Postmaster, stopAtExit, stopPostmaster } from './postmaster.ts';
import { isDurable, type Settings, serverArguments, socketDirectory, socketPath } from './settings.ts';

export interface EmbeddedPostgresOptions {
  dataDir: string;
  clock: Clock;
  /** Receives messages for people, for example that the data was relocated. */
  log?: (line: string) => void;
  settings?: Settings;
  /**
   * If Slipway runs as root, the directory for the cluster or the programs, whichever the
   * unprivileged account cannot reach.
   */
  relocateTo?: string;
}

export interface EmbeddedPostgres {
  /** Connects as the owner of all tables. The URL has the password and works only on this host. */
  url: string;
  /** Connects as the role of the application's statements. */
  application_url: string;
  pid: number;
  /** Whether a postmaster that another server launched was adopted. */
  adopted: boolean;
  clusterDir: string;
  /** Resolves if the ownership of the data directory is lost; the server must then stop. */
  lost: Promise<Error>;
  stop(): Promise<void>;
}

const database = 'slipway';
const maxAttempts = 5;
const pollMs = 10;
const settleMs = 100;
/**
 * This is long, because recovery after a power cut replays the write-ahead log since the last
 * checkpoint.
 */
const readyWithinMs = 5 * 60_000;

const movedMarkPath = (dataDir: string): string => join(dataDir, 'postgres.moved');

/** Keeps a server from starting on a moved database. `destination` must not show a password. */
export const markMoved = (dataDir: string, destination: string): Promise<void> =>
  writeFile(movedMarkPath(dataDir), `${destination}\n`);

function refuseMoved(dataDir: string): void {
  if (!existsSync(movedMarkPath(dataDir))) return;
  const destination = readFileSync(movedMarkPath(dataDir), 'utf8').trim();
  throw new EmbeddedPostgresError(
    'data_directory_moved',
    `The database of ${dataDir} was moved to ${destination}. A server on this one would change the same machines.`,
    `Start the server with --database-url. To return to this one, stop the other and delete ${movedMarkPath(dataDir)}.`,
  );
}

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, clock, log = () => {}, settings = {} } = options;
  refuseMoved(dataDir);
  const placement = choosePlacement(dataDir, log, options.relocateTo);
  await ensureCluster(placement, isDurable(settings));
  const password = await readPassword(placement);

  for (let attempt = 1; ; attempt++) {
    const running = await ensurePostmaster(placement, settings, clock);
    const urlFor = urlBuilder(placement, running.postmaster, password);
    // The secret is derived one way from the owner's password, so only one secret is stored.
    const secret = createHmac('sha256', password).update(application).digest('hex');
    try {
      await ensureDatabase(urlFor('postgres'), secret);
      const lock = await lockDataDirectory(urlFor(database), dataDir, clock);
      const urls = { url: urlFor(database), application_url: urlFor(database, application, secret) };
      return createHandle(placement, running, urls, lock, clock);
    } catch (error) {
      running.cancelStopAtExit();
      if (isOwned(error)) throw error;
      // The owner may be stopping the postmaster that we found. The next attempt starts a new one.
      const isPostmasterGone = hasErrorCode(error, '57P01', '57P03', 'ECONNREFUSED', 'ECONNRESET');
      if (isPostmasterGone && attempt < maxAttempts) {
        await pause(clock, settleMs);
        continue;
      }
      if (!running.adopted) await stopPostmaster(running.postmaster.pid, clock);
      throw error;
    }
  }
}

/** Whether the directory holds an embedded database, here or relocated. */
export const hasCluster = (dataDir: string): boolean =>
  ['postgres', 'postgres.location'].some((name) => existsSync(join(dataDir, name)));

/** Returns the owner's URL of the database of a running server, for a program beside it. */
export async function findRunningDatabase(dataDir: string): Promise<string | undefined> {
  const placement = choosePlacement(dataDir, () => {});
  const postmaster = findPostmaster(placement.clusterDir);
  return postmaster?.isReady ? urlBuilder(placement, postmaster, await readPassword(placement))(database) : undefined;
}

function urlBuilder({ clusterDir }: Placement, { port }: Postmaster, password: string) {
  const socketQuery = findSocketQuery(clusterDir, port);
  return (name: string, user = superuser, secret = password) =>
    `postgres://${user}:${secret}@127.0.0.1:${port}/${name}${socketQuery}`;
}

/** Prefers the Unix socket. A postmaster of an older version may have none. */
const findSocketQuery = (clusterDir: string, port: number): string => {
  const directory = socketDirectory(clusterDir, port);
  return directory && existsSync(socketPath(directory, port)) ? `?host=${encodeURIComponent(directory)}` : '';
};

const isOwned = (error: unknown) => error instanceof EmbeddedPostgresError && error.code === 'data_directory_owned';

interface RunningPostmaster {
  postmaster: Postmaster;
  adopted: boolean;
  /**
   * Keeps the postmaster running when this process exits. Until the lock is taken, only a
   * postmaster that this process launched stops then.
   */
  cancelStopAtExit(): void;
}

function createHandle(
  placement: Placement,
  running: RunningPostmaster,
  urls: { url: string; application_url: string },
  lock: DirectoryLock,
  clock: Clock,
): EmbeddedPostgres {
  const { postmaster, adopted } = running;
  let stopping: Promise<void> | undefined;
  // From here on this process has the lock, so an adopted postmaster stops at its exit too.
  running.cancelStopAtExit();
  const cancelStopAtExit = stopAtExit(postmaster.pid, placement.clusterDir);
  const lost = new Promise<Error>((resolve) => {
    lock.lost.then((error) => {
      cancelStopAtExit();
      if (!stopping) resolve(error);
    });
  });
  const stop = async () => {
    await stopPostmaster(postmaster.pid, clock);
    cancelStopAtExit();
    await lock.release();
  };
  return {
    ...urls,
    pid: postmaster.pid,
    adopted,
    clusterDir: placement.clusterDir,
    lost,
    // The lock is released after the postmaster has ended, so that no server adopts it while it
    // stops.
    stop: () => (stopping ??= stop()),
  };
}

async function ensurePostmaster(placement: Placement, settings: Settings, clock: Clock): Promise<RunningPostmaster> {
  for (let attempt = 1; ; attempt++) {
    const found = findPostmaster(placement.clusterDir);
    if (found) {
      const postmaster = await waitUntilReady(found.pid, placement, clock);
      return { postmaster, adopted: true, cancelStopAtExit: () => {} };
    }
    const child = await launch(placement, settings);
    const cancelStopAtExit = stopAtExit(child.pid ?? 0, placement.clusterDir);
    const postmaster = await waitUntilReadyOrExited(child, placement, clock);
    if (postmaster?.pid === child.pid && postmaster) return { postmaster, adopted: false, cancelStopAtExit };
    cancelStopAtExit();
    if (postmaster) return { postmaster, adopted: true, cancelStopAtExit };
    if (attempt >= maxAttempts) throw await readStartFailure(placement);
    // PostgreSQL refuses to start until the child processes of a killed postmaster have ended.
    await pause(clock, attempt * settleMs);
  }
}

async function launch(placement: Placement, settings: Settings): Promise<ChildProcess> {
  const port = await findFreePort();
  const logFd = openSync(placement.logFile, 'a', 0o600);
  try {
    const child = spawn(postgresOf(placement.binaries), serverArguments(placement.clusterDir, port, settings), {
      cwd: '/',
      env: environment,
      // PostgreSQL gets its own session, so that Ctrl-C in the server's terminal does not stop it.
      detached: true,
      stdio: ['ignore', logFd, logFd],
      ...(placement.account && { uid: placement.account.uid, gid: placement.account.gid }),
    });
    child.unref();
    await once(child, 'spawn');
    return child;
  } finally {
    closeSync(logFd);
  }
}

/**
 * Returns a port that is free now. If another process takes it first, the launch fails and the next
 * attempt picks another port.
 */
function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

/** Returns undefined if `child` has ended and no other postmaster runs in the directory. */
async function waitUntilReadyOrExited(
  child: ChildProcess,
  placement: Placement,
  clock: Clock,
): Promise<Postmaster | undefined> {
  const giveUpAt = clock.monotonicMs() + readyWithinMs;
  while (clock.monotonicMs() < giveUpAt) {
    const hasExited = child.exitCode !== null || child.signalCode !== null;
    const found = findPostmaster(placement.clusterDir);
    if (found?.isReady) return found;
    if (hasExited && !found) return undefined;
    await pause(clock, pollMs);
  }
  child.kill('SIGINT');
  throw await readStartFailure(placement);
}

async function waitUntilReady(pid: number, placement: Placement, clock: Clock): Promise<Postmaster> {
  const giveUpAt = clock.monotonicMs() + readyWithinMs;
  while (isProcessAlive(pid) && clock.monotonicMs() < giveUpAt) {
    const found = findPostmaster(placement.clusterDir);
    if (found?.isReady) return found;
    await pause(clock, pollMs);
  }
  throw await readStartFailure(placement);
}

async function readStartFailure({ logFile, clusterDir }: Placement): Promise<EmbeddedPostgresError> {
  const tail = (await readFile(logFile, 'utf8')).trimEnd().split('\n').slice(-5).join('\n');
  return new EmbeddedPostgresError(
    'start_failed',
    `PostgreSQL did not start on ${clusterDir}. The end of its log:\n${tail}`,
    `Read ${logFile}. The data is unchanged, so you can start again.`,
  );
}

async function ensureDatabase(maintenanceUrl: string, applicationSecret: string): Promise<void> {
  const client = new Client({ connectionString: maintenanceUrl });
  // A broken connection also rejects the running query; the event alone would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [database]);
    if (rowCount === 0) await client.query(`create database ${database}`);
    const roles = await client.query('select from pg_roles where rolname = $1', [application]);
    if (roles.rowCount === 0) await client.query(`create role ${application} login password '${applicationSecret}'`);
  } catch (error) {
    // A concurrent start created the database or the role.
    if (!hasErrorCode(error, '42P04', '42710', '23505')) throw error;
  } finally {
    await client.end();
  }
}
