/**
 * The embedded PostgreSQL: the default database, a process of its own beside the server. It outlives a killed server and is
 * adopted by the next one; only the owner of the data directory (claim.ts) ever stops it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { Client } from 'pg';
import { type Clock, pause } from '../../../base/clock.ts';
import { postgresOf } from './binaries.ts';
import { type Claim, claimDataDirectory } from './claim.ts';
import { application, ensureCluster, environment, readPassword, superuser } from './cluster.ts';
import { EmbeddedPostgresError, isRefusal } from './embedded-error.ts';
import { choosePlacement, type Placement } from './placement.ts';
import { findPostmaster, isProcessAlive, type Postmaster, stopPostmaster } from './postmaster.ts';
import { isDurable, type Settings, serverArguments, socketDirectory, socketPath } from './settings.ts';

export interface EmbeddedPostgresOptions {
  dataDir: string;
  clock: Clock;
  /** Told, in one sentence, what a person should know: for example that the data had to go elsewhere. */
  log?: (line: string) => void;
  settings?: Settings;
  /** Root's clusters and programs go here when the unprivileged account cannot enter the data directory or the clone. */
  relocateTo?: string;
}

export interface EmbeddedPostgres {
  /** Of the owner of everything, with the password; for this host only. */
  url: string;
  /** Of the role that the application's statements run as. */
  application_url: string;
  pid: number;
  /** Whether a postmaster that an earlier server left behind was taken over. */
  adopted: boolean;
  clusterDir: string;
  /** Resolves if the ownership of the data directory is lost while running; the server must then stop. */
  lost: Promise<Error>;
  stop(): Promise<void>;
}

const database = 'slipway';
const attempts = 5;
const pollMs = 10;
const settleMs = 100;
/** Recovery after a power cut reads the whole log; as long as the process lives it is making progress. */
const readyWithinMs = 5 * 60_000;

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, clock, log = () => {}, settings = {} } = options;
  const placement = choosePlacement(dataDir, log, options.relocateTo);
  await ensureCluster(placement, isDurable(settings));
  const password = await readPassword(placement);

  for (let attempt = 1; ; attempt++) {
    const running = await runningPostmaster(placement, settings, clock);
    const { port } = running.postmaster;
    const through = wayTo(placement.clusterDir, port);
    const address = (name: string, user = superuser, secret = password) =>
      `postgres://${user}:${secret}@127.0.0.1:${port}/${name}${through}`;
    // Made from the owner's, so that there is one secret to keep; it does not lead back to it.
    const secret = createHmac('sha256', password).update(application).digest('hex');
    try {
      await ensureDatabase(address('postgres'), secret);
      const claim = await claimDataDirectory(address(database), dataDir, clock);
      const urls = { url: address(database), application_url: address(database, application, secret) };
      return handle(placement, running, urls, claim, clock);
    } catch (error) {
      if (isOwned(error)) throw error;
      // The owner may be stopping the postmaster that we have just found; then the next round starts a new one.
      const wentAway = isRefusal(error, '57P01', '57P03', 'ECONNREFUSED', 'ECONNRESET');
      if (wentAway && attempt < attempts) {
        await pause(clock, settleMs);
        continue;
      }
      if (!running.adopted) await stopPostmaster(running.postmaster.pid, clock);
      throw error;
    }
  }
}

/** By its socket where it has one; a postmaster that an older server left may have none. */
const wayTo = (clusterDir: string, port: number): string => {
  const directory = socketDirectory(clusterDir, port);
  return directory && existsSync(socketPath(directory, port)) ? `?host=${encodeURIComponent(directory)}` : '';
};

const isOwned = (error: unknown) => error instanceof EmbeddedPostgresError && error.code === 'data_directory_owned';

interface Running {
  postmaster: Postmaster;
  adopted: boolean;
}

function handle(
  placement: Placement,
  { postmaster, adopted }: Running,
  urls: { url: string; application_url: string },
  claim: Claim,
  clock: Clock,
): EmbeddedPostgres {
  let stopping: Promise<void> | undefined;
  const lost = new Promise<Error>((resolve) => {
    claim.lost.then((error) => {
      if (!stopping) resolve(error);
    });
  });
  return {
    ...urls,
    pid: postmaster.pid,
    adopted,
    clusterDir: placement.clusterDir,
    lost,
    // The claim is held until the postmaster is gone, so that nobody takes over one that is about to end.
    stop: () => (stopping ??= stopPostmaster(postmaster.pid, clock).then(claim.release)),
  };
}

async function runningPostmaster(placement: Placement, settings: Settings, clock: Clock): Promise<Running> {
  for (let attempt = 1; ; attempt++) {
    const found = findPostmaster(placement.clusterDir);
    if (found) return { postmaster: await whenReady(found.pid, placement, clock), adopted: true };
    const child = await launch(placement, settings);
    const postmaster = await untilReadyOrGone(child, placement, clock);
    if (postmaster) return { postmaster, adopted: postmaster.pid !== child.pid };
    if (attempt >= attempts) throw await startFailed(placement);
    // Processes of a postmaster that was killed take a moment to notice; until then PostgreSQL refuses to start.
    await pause(clock, attempt * settleMs);
  }
}

async function launch(placement: Placement, settings: Settings): Promise<ChildProcess> {
  const port = await freePort();
  const logFd = openSync(placement.logFile, 'a', 0o600);
  try {
    const child = spawn(postgresOf(placement.binaries), serverArguments(placement.clusterDir, port, settings), {
      cwd: '/',
      env: environment,
      // In a session of its own, so that Ctrl-C in the server's terminal does not end it under the server.
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

/** Free when we look; should somebody take it before PostgreSQL does, the launch fails and the next round picks another. */
function freePort(): Promise<number> {
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

/** Undefined when our process ended and nobody else's postmaster runs there either. */
async function untilReadyOrGone(
  child: ChildProcess,
  placement: Placement,
  clock: Clock,
): Promise<Postmaster | undefined> {
  const giveUpAt = clock.monotonicMs() + readyWithinMs;
  while (clock.monotonicMs() < giveUpAt) {
    const gone = child.exitCode !== null || child.signalCode !== null;
    const found = findPostmaster(placement.clusterDir);
    if (found?.ready) return found;
    if (gone && !found) return undefined;
    await pause(clock, pollMs);
  }
  child.kill('SIGINT');
  throw await startFailed(placement);
}

async function whenReady(pid: number, placement: Placement, clock: Clock): Promise<Postmaster> {
  const giveUpAt = clock.monotonicMs() + readyWithinMs;
  while (isProcessAlive(pid) && clock.monotonicMs() < giveUpAt) {
    const found = findPostmaster(placement.clusterDir);
    if (found?.ready) return found;
    await pause(clock, pollMs);
  }
  throw await startFailed(placement);
}

async function startFailed({ logFile, clusterDir }: Placement): Promise<EmbeddedPostgresError> {
  const tail = (await readFile(logFile, 'utf8')).trimEnd().split('\n').slice(-5).join('\n');
  return new EmbeddedPostgresError(
    'start_failed',
    `PostgreSQL did not start on ${clusterDir}. The end of its log:\n${tail}`,
    `Read ${logFile}; the data is untouched, and the start can be tried again.`,
  );
}

async function ensureDatabase(maintenanceUrl: string, applicationSecret: string): Promise<void> {
  const client = new Client({ connectionString: maintenanceUrl });
  // What breaks the connection also rejects the query under way; the event alone would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${database}`);
    const roles = await client.query('SELECT FROM pg_roles WHERE rolname = $1', [application]);
    if (roles.rowCount === 0) await client.query(`CREATE ROLE ${application} LOGIN PASSWORD '${applicationSecret}'`);
  } catch (error) {
    // Two starts at once: the other one made it.
    if (!isRefusal(error, '42P04', '42710', '23505')) throw error;
  } finally {
    await client.end();
  }
}
