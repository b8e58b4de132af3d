/**
 * Decides where the cluster and the programs are and which account runs them. If Slipway runs as
 * root and the unprivileged account cannot enter the data directory or the clone, they go to
 * /var/lib/slipway, and a pointer file in the data directory holds the path of the cluster.
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
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
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
  /** Where a cluster is created before it is renamed to `clusterDir`: on the same file system. */
  nurseryDir: string;
  logFile: string;
  binaries: Binaries;
  /** Undefined: the account of this process. */
  account: Account | undefined;
}

/** Every account can enter /var/lib by convention. */
const defaultRelocation = '/var/lib/slipway';

type Say = (line: string) => void;

export function choosePlacement(dataDir: string, say: Say, relocateTo: string = defaultRelocation): Placement {
  const directory = openDataDirectory(dataDir);
  const logFile = join(directory, 'postgres.log');
  const inPlace = join(directory, 'postgres');
  const binaries = installedBinaries();
  if (!runsAsRoot()) {
    refuseForeignCluster(inPlace);
    return { clusterDir: inPlace, nurseryDir: directory, logFile, binaries, account: undefined };
  }
  const pointer = join(directory, 'postgres.location');
  const fresh = unprivilegedAccount(say);
  const barrier = barrierBefore(fresh, inPlace);
  const moved = existsSync(pointer) || (barrier !== undefined && !existsSync(inPlace));
  const clusterDir = moved ? relocated(pointer, relocateTo, fresh) : inPlace;
  const account = takenFromNobody(clusterDir, fresh, say) ?? ownerOf(clusterDir) ?? fresh;
  if (moved && !existsSync(clusterDir)) {
    say(`PostgreSQL runs as ${account.name}, which may not enter ${barrier}; its data is in ${clusterDir} instead.`);
  }
  const nurseryDir = moved ? dirname(clusterDir) : directory;
  return { clusterDir, nurseryDir, logFile, binaries: reachableBinaries(binaries, account, relocateTo, say), account };
}

function openDataDirectory(dataDir: string): string {
  try {
    // Other accounts may pass through, as the unprivileged one must, but not list it.
    mkdirSync(dataDir, { recursive: true, mode: 0o711 });
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
 * Earlier versions ran the database as nobody. A running cluster keeps its account until the next
 * start.
 */
function takenFromNobody(clusterDir: string, account: Account, say: Say): Account | undefined {
  const owner = ownerOf(clusterDir);
  if (!owner || !isNobody(owner) || findPostmaster(clusterDir)) return undefined;
  takeOver(clusterDir, owner, account);
  say(
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
    'Start Slipway as the account that made it (root, if it was root), or choose another --data-dir.',
  );
}

/** The path is random: a new data directory with an old name must not find old data. */
function relocated(pointer: string, relocateTo: string, account: Account): string {
  if (!existsSync(pointer)) {
    createOnce(pointer, join(createPlace(account, join(relocateTo, 'data')), randomBytes(8).toString('hex')));
  }
  return readFileSync(pointer, 'utf8').trim();
}

function createPlace(account: Account, place: string): string {
  try {
    mkdirSync(place, { recursive: true, mode: 0o755 });
  } catch (cause) {
    throw relocationFailed(place, cause instanceof Error ? cause.message : String(cause), cause);
  }
  const barrier = barrierBefore(account, join(realpathSync(place), 'x'));
  if (barrier) throw relocationFailed(place, `${account.name} may not enter ${barrier}`);
  return place;
}

/** Atomic: only the first of two concurrent starts writes the file. */
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

function reachableBinaries(binaries: Binaries, account: Account, relocateTo: string, say: Say): Binaries {
  const needed = [postgresOf(binaries), join(binaries.directory, 'lib'), join(binaries.directory, 'share')];
  if (needed.every((path) => mayUse(account, realpathSync(path)))) return binaries;
  const copy = { ...binaries, directory: join(createPlace(account, relocateTo), `postgres-${binaries.version}`) };
  if (existsSync(copy.directory)) return copy;
  say(
    `PostgreSQL runs as ${account.name}, which may not enter ${binaries.directory}; it is copied to ${copy.directory}.`,
  );
  const draft = `${copy.directory}.${process.pid}`;
  try {
    cpSync(binaries.directory, draft, { recursive: true, verbatimSymlinks: true });
    openToAll(draft);
    renameSync(draft, copy.directory);
  } catch (cause) {
    rmSync(draft, { recursive: true, force: true });
    // A concurrent start has made the copy.
    if (!isRefusal(cause, 'ENOTEMPTY', 'EEXIST')) throw relocationFailed(relocateTo, String(cause), cause);
  }
  return copy;
}

/** The packages may have been installed with a umask that closes them to other accounts. */
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
