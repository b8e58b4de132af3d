/** Creates a database cluster on disk atomically, with its password in a file inside it. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { initdbOf, majorOf } from './binaries.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';
import type { Placement } from './placement.ts';
import { isProcessAlive } from './postmaster.ts';

export const superuser = 'slipway';
/**
 * The role of the server's own statements. It owns no table, so it cannot change or delete
 * evidence.
 */
export const application = 'slipway_application';

const passwordFile = 'slipway-password';
const draftPrefix = '.postgres-new-';

/** Inherits no variables, because PGDATA or PGPORT would change what the programs do. */
export const environment = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' };

export const readPassword = async (placement: Placement): Promise<string> =>
  (await readFile(join(placement.clusterDir, passwordFile), 'utf8')).trim();

export async function ensureCluster(placement: Placement, isDurable: boolean): Promise<void> {
  if (await isCluster(placement)) return;
  await removeAbandonedDrafts(placement.draftsDir);
  const draft = join(placement.draftsDir, `${draftPrefix}${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    await initialise(placement, draft, isDurable);
    await rename(draft, placement.clusterDir);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // With these codes, a concurrent start has created the cluster.
    if (!hasErrorCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
  }
}

async function isCluster({ clusterDir, binaries }: Placement): Promise<boolean> {
  const version = await readFile(join(clusterDir, 'PG_VERSION'), 'utf8').catch((error: unknown) => {
    if (hasErrorCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (version?.trim() === majorOf(binaries)) return true;
  if (version === undefined && (await isAbsentOrEmpty(clusterDir))) return false;
  const contents = version === undefined ? 'no database' : `a database of PostgreSQL ${version.trim()}`;
  throw new EmbeddedPostgresError(
    'data_directory_unusable',
    `${clusterDir} holds ${contents}, and this Slipway brings PostgreSQL ${majorOf(binaries)}.`,
    'Choose another --data-dir, or use the Slipway version that created this one.',
  );
}

async function isAbsentOrEmpty(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).length === 0;
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) return true;
    throw error;
  }
}

async function initialise({ binaries, account }: Placement, draft: string, isDurable: boolean): Promise<void> {
  await mkdir(draft, { mode: 0o700 });
  const password = `${draft}.password`;
  try {
    await writeFile(password, `${randomBytes(24).toString('hex')}\n`, { mode: 0o600 });
    if (account) {
      await chown(draft, account.uid, account.gid);
      await chown(password, account.uid, account.gid);
    }
    await runInitdb(initdbOf(binaries), draft, password, isDurable, account);
    await rename(password, join(draft, passwordFile));
    await chmod(join(draft, passwordFile), 0o600);
  } finally {
    await rm(password, { force: true });
  }
}

async function runInitdb(
  initdb: string,
  directory: string,
  password: string,
  isDurable: boolean,
  account: Placement['account'],
): Promise<void> {
  const args = [
    ...['--pgdata', directory, '--username', superuser, '--auth', 'scram-sha-256', '--pwfile', password],
    ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
    ...['--no-instructions', ...(isDurable ? [] : ['--no-sync'])],
  ];
  try {
    await promisify(execFile)(initdb, args, {
      cwd: '/',
      env: environment,
      ...(account && { uid: account.uid, gid: account.gid }),
    });
  } catch (cause) {
    const output = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : String(cause);
    throw new EmbeddedPostgresError(
      'initialisation_failed',
      `Could not create a database in ${directory}: ${output || String(cause)}`,
      'Look at the message of initdb; free disk space and the rights on the data directory are the usual causes.',
      { cause },
    );
  }
}

/**
 * Removes the drafts of killed servers. initdb outlives a killed server and keeps writing for a
 * moment, so the removal is retried. A draft that cannot be removed is left to the next start.
 */
async function removeAbandonedDrafts(draftsDir: string): Promise<void> {
  for (const name of await readdir(draftsDir)) {
    if (!name.startsWith(draftPrefix)) continue;
    const ownerPid = Number.parseInt(name.slice(draftPrefix.length), 10);
    if (ownerPid === process.pid || isProcessAlive(ownerPid)) continue;
    await removeWithRetries(join(draftsDir, name));
  }
}

async function removeWithRetries(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  } catch (error) {
    if (!hasErrorCode(error, 'ENOTEMPTY', 'EBUSY', 'EPERM', 'EACCES')) throw error;
  }
}
