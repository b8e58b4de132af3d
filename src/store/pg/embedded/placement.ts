/**
 * Decides where the cluster and the programs are and which account runs them. If Slipway runs as
 * root, the unprivileged account may be unable to enter the data directory or the clone. Then they
 * go to /var/lib/slipway-postgres, and a pointer file in the data directory holds the path of the
 * cluster.
 */
import { randomBytes } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../../../base/files/make-directory.ts';
import {
  type Account,
  accountOf,
  barrierBefore,
  isNobody,
  mayUse,
  runsAsRoot,
  unprivilegedAccount,
} from './account.ts';
import { type Binaries, installedBinaries, postgresOf } from './binaries.ts';
import { EmbeddedPostgresError, isRefusal } from './embedded-error.ts';
import { findPostmaster } from './postmaster.ts';
import { takeOver } from './take-over.ts';

export interface Placement {
  clusterDir: string;
  /** Clusters are created here and renamed to `clusterDir`, so both are on one file system. */
  draftsDir: string;
  logFile: string;
  binaries: Binaries;
  /** Undefined means the account of this process. */
  account: Account | undefined;
}

/**
 * Every account can enter /var/lib by convention. Nothing else uses this directory. In contrast,
 * /var/lib/slipway may be a data directory or hold the nodes of root, and be closed to others.
 */
const defaultRelocation = '/var/lib/slipway-postgres';

type Log = (line: string) => void;

export function choosePlacement(dataDir: string, log: Log, relocateTo: string = defaultRelocation): Placement {
  const directory = openDataDirectory(dataDir);
  const logFile = join(directory, 'postgres.log');
  const inPlace = join(directory, 'postgres');
  const binaries = installedBinaries();
  if (!runsAsRoot()) {
    refuseForeignCluster(inPlace);
    return { clusterDir: inPlace, draftsDir: directory, logFile, binaries, account: undefined };
  }
  const pointer = join(directory, 'postgres.location');
  const unprivileged = unprivilegedAccount(log);
  const barrier = barrierBefore(unprivileged, inPlace);
  const isRelocated = existsSync(pointer) || (barrier !== undefined && !existsSync(inPlace));
  const clusterDir = isRelocated ? readRelocation(pointer, relocateTo, unprivileged) : inPlace;
  const account = takeFromNobody(clusterDir, unprivileged, log) ?? ownerOf(clusterDir) ?? unprivileged;
  refuseClosed(clusterDir, account);
  if (isRelocated && !existsSync(clusterDir)) {
    log(`PostgreSQL runs as ${account.name}, which may not enter ${barrier}; its data is in ${clusterDir} instead.`);
  }
  const draftsDir = isRelocated ? dirname(clusterDir) : directory;
  return { clusterDir, draftsDir, logFile, binaries: reachableBinaries(binaries, account, relocateTo, log), account };
}

function openDataDirectory(dataDir: string): string {
  try {
    // Other accounts may enter but not list the directory, because PostgreSQL's account must enter.
    makeDirectory(dataDir, 0o711);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    return realpathSync(dataDir);
  } catch (cause) {
    throw new EmbeddedPostgresError(
      'data_directory_unwritable',
      `The data directory ${dataDir} cannot be written: ${cause instanceof Error ? cause.message : cause}.`,
      'Choose another with --data-dir, or give this user the right to write it.',
      { cause },
    );
  }
}

function ownerOf(clusterDir: string): Account | undefined {
  if (!existsSync(clusterDir)) return undefined;
  const { uid, gid } = statSync(clusterDir);
  return uid === 0 ? undefined : accountOf(uid, gid);
}

/**
 * Earlier versions ran the database as nobody. Gives such a cluster to `account`, unless it runs.
 */
function takeFromNobody(clusterDir: string, account: Account, log: Log): Account | undefined {
  const owner = ownerOf(clusterDir);
  if (!owner || !isNobody(owner) || findPostmaster(clusterDir)) return undefined;
  takeOver(clusterDir, owner, account);
  log(
    `The database in ${clusterDir} belonged to ${owner.name}, as which other programs run too; it now belongs to ${account.name}.`,
  );
  return account;
}

function refuseForeignCluster(clusterDir: string): void {
  if (!existsSync(clusterDir)) return;
  const { uid } = statSync(clusterDir);
  if (uid === process.getuid?.()) return;
  throw new EmbeddedPostgresError(
    'data_directory_foreign',
    `${clusterDir} belongs to another account (uid ${uid}); PostgreSQL only opens what its own account owns.`,
    'Start Slipway as the account that created it, or choose another --data-dir.',
  );
}

/** The path is random, so that a new data directory with an old name does not find old data. */
function readRelocation(pointer: string, relocateTo: string, account: Account): string {
  if (!existsSync(pointer)) {
    createOnce(pointer, join(createPlace(account, join(relocateTo, 'data')), randomBytes(8).toString('hex')));
  }
  return readFileSync(pointer, 'utf8').trim();
}

/** Without this check, the log of PostgreSQL would only say that the directory does not exist. */
function refuseClosed(clusterDir: string, account: Account): void {
  const barrier = barrierBefore(account, clusterDir);
  if (barrier === undefined) return;
  throw new EmbeddedPostgresError(
    'data_directory_closed',
    `PostgreSQL runs as ${account.name}, which may not enter ${barrier} any more; its data is in ${clusterDir}.`,
    `Let all accounts enter it: chmod o+x ${barrier}`,
  );
}

function createPlace(account: Account, place: string): string {
  try {
    makeDirectory(place, 0o755);
  } catch (cause) {
    throw relocationFailed(place, cause instanceof Error ? cause.message : String(cause), cause);
  }
  const barrier = barrierBefore(account, join(realpathSync(place), 'x'));
  if (barrier) throw relocationFailed(place, `${account.name} may not enter ${barrier}`);
  return place;
}

/** Writes the file atomically. Only the first of two concurrent starts succeeds. */
function createOnce(file: string, content: string): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${content}\n`, { mode: 0o600 });
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!isRefusal(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft);
  }
}

function reachableBinaries(binaries: Binaries, account: Account, relocateTo: string, log: Log): Binaries {
  const needed = [postgresOf(binaries), join(binaries.directory, 'lib'), join(binaries.directory, 'share')];
  if (needed.every((path) => mayUse(account, realpathSync(path)))) return binaries;
  const copy = { ...binaries, directory: join(createPlace(account, relocateTo), `postgres-${binaries.version}`) };
  if (existsSync(copy.directory)) return copy;
  log(
    `PostgreSQL runs as ${account.name}, which may not enter ${binaries.directory}; it is copied to ${copy.directory}.`,
  );
  const draft = `${copy.directory}.${process.pid}`;
  try {
    cpSync(binaries.directory, draft, { recursive: true, verbatimSymlinks: true });
    openToAll(draft);
    renameSync(draft, copy.directory);
  } catch (cause) {
    rmSync(draft, { recursive: true, force: true });
    // Ignore these codes: a concurrent start has created the copy.
    if (!isRefusal(cause, 'ENOTEMPTY', 'EEXIST')) throw relocationFailed(relocateTo, String(cause), cause);
  }
  return copy;
}

/** Makes files readable for all, because a strict umask at installation may have closed them. */
function openToAll(path: string): void {
  const entry = lstatSync(path);
  if (entry.isSymbolicLink()) return;
  chmodSync(path, entry.isDirectory() || entry.mode & 0o100 ? 0o755 : 0o644);
  if (entry.isDirectory()) for (const name of readdirSync(path)) openToAll(join(path, name));
}

const relocationFailed = (place: string, reason: string, cause?: unknown) =>
  new EmbeddedPostgresError(
    'relocation_failed',
    `PostgreSQL cannot run as root, its account cannot enter the data directory or the clone, and ${place} ` +
      `cannot be used instead: ${reason}.`,
    'Start Slipway as a plain user, or keep the clone and --data-dir where every account may enter.',
    { cause },
  );
