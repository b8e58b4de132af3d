/**
 * Chooses the directories of the cluster and of PostgreSQL's programs, and the account that runs
 * them. If Slipway runs as root, each of the two that the unprivileged account cannot reach goes to
 * /var/lib/slipway-postgres: the cluster is created there, and a pointer file in the data directory
 * holds its path; the programs are copied there.
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
  ensureUnprivilegedAccount,
  findBlockedAncestor,
  isNobody,
  mayUse,
  readAccount,
  runsAsRoot,
} from './account.ts';
import { type Binaries, findBinaries, postgresOf } from './binaries.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';
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
 * By convention every account can enter /var/lib, and nothing else uses this subdirectory.
 * /var/lib/slipway is unsuitable: it may be a data directory, or hold the machines of a server that
 * runs as root, and be closed to other accounts.
 */
const defaultRelocation = '/var/lib/slipway-postgres';

type Log = (line: string) => void;

export function choosePlacement(dataDir: string, log: Log, relocateTo: string = defaultRelocation): Placement {
  const directory = openDataDirectory(dataDir);
  const logFile = join(directory, 'postgres.log');
  const inPlace = join(directory, 'postgres');
  const binaries = findBinaries();
  if (!runsAsRoot()) {
    refuseForeignCluster(inPlace);
    return { clusterDir: inPlace, draftsDir: directory, logFile, binaries, account: undefined };
  }
  const pointer = join(directory, 'postgres.location');
  const unprivileged = ensureUnprivilegedAccount(log);
  const barrier = findBlockedAncestor(unprivileged, inPlace);
  const isRelocated = existsSync(pointer) || (barrier !== undefined && !existsSync(inPlace));
  const clusterDir = isRelocated ? ensureRelocation(pointer, relocateTo, unprivileged) : inPlace;
  const account = takeFromNobody(clusterDir, unprivileged, log) ?? findOwner(clusterDir) ?? unprivileged;
  refuseClosed(clusterDir, account);
  if (isRelocated && !existsSync(clusterDir)) {
    const because = barrier === undefined ? `${pointer} says so` : `that account may not enter ${barrier}`;
    log(`PostgreSQL runs as ${account.name}; its data is in ${clusterDir}, because ${because}.`);
  }
  const draftsDir = isRelocated ? dirname(clusterDir) : directory;
  return { clusterDir, draftsDir, logFile, binaries: ensureReachable(binaries, account, relocateTo, log), account };
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

function findOwner(clusterDir: string): Account | undefined {
  if (!existsSync(clusterDir)) return undefined;
  const { uid, gid } = statSync(clusterDir);
  return uid === 0 ? undefined : readAccount(uid, gid);
}

/**
 * Earlier versions ran the database as nobody. Gives such a cluster to `account`, unless it runs.
 */
function takeFromNobody(clusterDir: string, account: Account, log: Log): Account | undefined {
  const owner = findOwner(clusterDir);
  if (!owner || !isNobody(owner) || findPostmaster(clusterDir)) return undefined;
  takeOver(clusterDir, owner, account);
  log(
    `The database in ${clusterDir} belonged to the account ${owner.name}, which other programs use too; it now belongs to the account ${account.name}.`,
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
function ensureRelocation(pointer: string, relocateTo: string, account: Account): string {
  if (!existsSync(pointer)) {
    createOnce(pointer, join(createPlace(account, join(relocateTo, 'data')), randomBytes(8).toString('hex')));
  }
  return readFileSync(pointer, 'utf8').trim();
}

/** Without this check, the log of PostgreSQL would only say that the directory does not exist. */
function refuseClosed(clusterDir: string, account: Account): void {
  const barrier = findBlockedAncestor(account, clusterDir);
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
    throw relocationError(place, cause instanceof Error ? cause.message : String(cause), cause);
  }
  const barrier = findBlockedAncestor(account, join(realpathSync(place), 'x'));
  if (barrier) throw relocationError(place, `${account.name} may not enter ${barrier}`);
  return place;
}

/** Creates the file atomically. If it already exists, keeps it: two starts may run at once. */
function createOnce(file: string, content: string): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${content}\n`, { mode: 0o600 });
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!hasErrorCode(error, 'EEXIST')) throw error;
  } finally {
    rmSync(draft);
  }
}

function ensureReachable(binaries: Binaries, account: Account, relocateTo: string, log: Log): Binaries {
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
    // With these codes, a concurrent start has created the copy.
    if (!hasErrorCode(cause, 'ENOTEMPTY', 'EEXIST')) throw relocationError(relocateTo, String(cause), cause);
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

const relocationError = (place: string, reason: string, cause?: unknown) =>
  new EmbeddedPostgresError(
    'relocation_failed',
    `PostgreSQL cannot run as root, its account cannot enter the data directory or the clone, and ${place} ` +
      `cannot be used instead: ${reason}.`,
    'Start Slipway as a plain user, or keep the clone and --data-dir where every account may enter.',
    { cause },
  );
