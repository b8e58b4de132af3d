/**
 * Runs the forward migrations, each in its own transaction, on one replica at a time. Accepts a
 * newer schema if its migrations allow that (upgrade/), and refuses it otherwise.
 *
 * Other replicas keep serving requests. Their statements queue behind a migration that waits for a
 * lock, so a migration waits only a moment, lets them pass and retries. The file of a slow
 * migration begins with `-- online`. Its statements run one by one outside a transaction, so each
 * must be idempotent, and indexes are built `concurrently`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { pause, systemClock } from '../base/clock.ts';
import { packageVersion } from '../base/files/package-root.ts';
import { hasObservingReplica, openRestoration } from './backup/restorations.ts';
import { type BegunEra, beginEraFor, beginEraIfRestored } from './evidence/eras.ts';
import { grantApplication } from './pg/application-role.ts';
import { FailoverClient } from './pg/connections/failover-client.ts';
import { type Queryable, single } from './pg/database.ts';
import { type MigrationStep, migrationSteps, runsFrom, windowSchema } from './upgrade/migration-steps.ts';
import { listAppliedMigrations, refuseBeyondWindow, waitForOlderReplicas } from './upgrade/window.ts';

const ownMigrations = fileURLToPath(new URL('./migrations/', import.meta.url));
export const migrationLock = 7_213_001;
/** How long statements of other replicas usually queue behind a migration that waits for a lock. */
const lockTimeoutMs = 500;
/**
 * PostgreSQL cancels an autovacuum for a statement that has waited `deadlock_timeout`, by default
 * 1 s. So one try in `triesPerLongTry` waits longer.
 */
const longLockTimeoutMs = 1_500;
const triesPerLongTry = 8;
const retryDelayMs = 250;
const triesPerReport = 40;
const maxTries = 240;
const lockNotAvailable = '55P03';

export class OtherDatabase extends Error {
  override name = 'OtherDatabase';
}

/**
 * Returns the role that the application runs as. Call this on a connection of the application while
 * the owner's connection holds the migration lock. If the lock is free, the two URLs name different
 * databases.
 */
export async function applicationRole(db: Queryable): Promise<string> {
  const { role, is_free } = single(
    await db.query<{ role: string; is_free: boolean }>(
      'select current_user as role, pg_try_advisory_xact_lock($1) as is_free',
      [migrationLock],
    ),
  );
  if (is_free)
    throw new OtherDatabase(
      '--database-url and --owner-database-url are different databases. Give both the same host, port and name, and each its own role.',
    );
  return role;
}

export interface Migration {
  version: number;
  name: string;
  sql: string;
}

/** The session that holds the migration lock. A field that the role may not see is null. */
export interface LockHolder {
  pid: number;
  application: string | null;
  address: string | null;
  since: Date | null;
}

async function lockHolder(client: pg.Client): Promise<LockHolder | undefined> {
  const { rows } = await client.query<LockHolder>(
    `select held.pid,
            nullif(activity.application_name, '') as application,
            host(activity.client_addr) as address,
            activity.backend_start as since
     from pg_locks held
     left join pg_stat_activity activity using (pid)
     where held.locktype = 'advisory'
       and held.granted
       -- This is a lock with one 64-bit key, which pg_locks splits over two columns.
       and held.objsubid = 1
       and held.classid = 0
       and held.objid = $1
       and held.database = (select oid from pg_database where datname = current_database())`,
    [migrationLock],
  );
  return rows[0];
}

/**
 * Polls for the lock, because a statement that waits would block a concurrent index build. Reports
 * the holder at once and then every 10 s.
 */
async function takeLock(client: pg.Client, onWait?: (holder: LockHolder) => void): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [
      migrationLock,
    ]);
    if (rows[0]?.taken) return;
    const holder = tries % triesPerReport === 0 ? await lockHolder(client) : undefined;
    if (holder) onWait?.(holder);
    await pause(systemClock, retryDelayMs);
  }
}

type Steps = Readonly<Record<string, MigrationStep>>;

async function recordMigration(client: pg.Client, { version, name }: Migration, steps: Steps): Promise<void> {
  // Earlier schemas lack the other columns.
  if (version < windowSchema)
    await client.query('insert into schema_migrations (version, name) values ($1, $2)', [version, name]);
  else
    await client.query('insert into schema_migrations (version, name, runs_from, applied_by) values ($1, $2, $3, $4)', [
      version,
      name,
      runsFrom({ version, name }, steps),
      packageVersion(),
    ]);
}

async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      await client.query('begin');
      const timeoutMs = tries % triesPerLongTry === 0 ? longLockTimeoutMs : lockTimeoutMs;
      await client.query(`set local lock_timeout = ${timeoutMs}`);
      const result = await work();
      await client.query('commit');
      return result;
    } catch (error) {
      // If the connection broke, PostgreSQL has rolled back, and the first error is thrown.
      await client.query('rollback').catch(() => {});
      const isBusy = error instanceof pg.DatabaseError && error.code === lockNotAvailable;
      if (!isBusy || tries === maxTries) throw error;
      await pause(systemClock, retryDelayMs);
    }
  }
}

const applyInTransaction = (client: pg.Client, migration: Migration, steps: Steps): Promise<void> =>
  inTransaction(client, async () => {
    await client.query(migration.sql);
    await recordMigration(client, migration, steps);
  });

/**
 * An interrupted build leaves an invalid index, which `if not exists` would take for a finished
 * one.
 */
async function dropInvalidIndexes(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select indexrelid::regclass::text as name
     from pg_index
     join pg_class on pg_class.oid = indexrelid
     where not indisvalid
       and relnamespace = 'public'::regnamespace
       and relkind = 'i'`,
  );
  for (const { name } of rows) await client.query(`drop index concurrently if exists ${name}`);
}

async function applyOnline(client: pg.Client, migration: Migration, steps: Steps): Promise<void> {
  await dropInvalidIndexes(client);
  for (const statement of statementsOf(migration.sql)) await client.query(statement);
  await recordMigration(client, migration, steps);
}

const withoutComments = (sql: string): string => sql.replaceAll(/^\s*--.*$/gm, '');
const isOnline = ({ sql }: Pick<Migration, 'sql'>): boolean => /^-- online\b/.test(sql);

/** The SQL texts to send one by one. Only an online migration is split into statements. */
export const statementsOf = (sql: string): string[] =>
  isOnline({ sql }) ? sql.split(/;\s*$/m).filter((text) => /^\s*[a-z]/im.test(withoutComments(text))) : [sql];

export async function readMigrations(folder: string = ownMigrations): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => ({
      version: Number.parseInt(name, 10),
      name,
      sql: await readFile(join(folder, name), 'utf8'),
    })),
  );
}

const newestOf = (migrations: { version: number }[]): number =>
  Math.max(0, ...migrations.map(({ version }) => version));

/** The schema version that a server must know to run after these migrations. */
const neededBy = (migrations: Migration[], steps: Steps): number =>
  Math.max(0, ...migrations.map((each) => runsFrom(each, steps)));

/** The versions that this Slipway can bring a database to. */
export const knownVersions = async (): Promise<ReadonlySet<number>> =>
  new Set((await readMigrations(ownMigrations)).map(({ version }) => version));

/**
 * Migrates the database. `url` connects as the owner of the tables. If the application has another
 * role, that role gets its rights. Begins an era of evidence if the database was restored.
 */
export async function migrate(
  url: string,
  {
    folder = ownMigrations,
    steps = migrationSteps,
    only,
    application_role,
    is_restored = false,
    onWait,
  }: {
    folder?: string;
    steps?: Steps;
    /** The versions to apply. Default: all. */
    only?: ReadonlySet<number>;
    application_role?: () => Promise<string>;
    /** An operator declares that the database was restored. It may show no sign of that itself. */
    is_restored?: boolean;
    /** Called while another session holds the migration lock. */
    onWait?(holder: LockHolder): void;
  } = {},
): Promise<{ applied: string[]; restored?: BegunEra; newer_schema?: number }> {
  const known = (await readMigrations(folder)).filter(({ version }) => only?.has(version) ?? true);
  const client = new FailoverClient({
    connectionString: url,
    application_name: 'slipway migrate',
    connectionTimeoutMillis: 15_000,
  });
  // A broken connection fails the running statement; the event alone would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    await takeLock(client, onWait);
    const role = await application_role?.();
    await client.query(
      `create table if not exists schema_migrations (
         version integer primary key,
         name text not null,
         applied_at timestamptz not null default now()
       )`,
    );
    const done = await listAppliedMigrations(client);
    const newest = newestOf(done);
    const supported = newestOf(known);
    refuseBeyondWindow(done, supported);
    const missing = known.filter(({ version }) => !done.some((each) => each.version === version));
    await waitForOlderReplicas(client, { needed: neededBy(missing, steps), newest });
    const applied: string[] = [];
    for (const migration of missing) {
      await (isOnline(migration) ? applyOnline : applyInTransaction)(client, migration, steps);
      applied.push(migration.name);
    }
    if (role !== undefined) await grantApplication(client, role, applied.length > 0);
    // Some tests apply only the first migrations, which lack the table of eras.
    const includesEras = known.some(({ name }) => name.endsWith('-evidence-eras.sql'));
    const includesRestorations = known.some(({ name }) => name.endsWith('-restorations.sql'));
    const restored = includesEras
      ? await inTransaction(client, async () => {
          const isDeclared = is_restored && includesRestorations && !(await hasObservingReplica(client));
          const begun = isDeclared ? await beginEraFor(client, 'declared') : await beginEraIfRestored(client);
          if (begun && includesRestorations) await openRestoration(client, begun.sign);
          return begun;
        })
      : undefined;
    return { applied, ...(restored && { restored }), ...(newest > supported && { newer_schema: newest }) };
  } finally {
    // The end of the connection does not release the lock if a pooler keeps the session.
    await client.query('select pg_advisory_unlock_all()').catch(() => {});
    await client.end();
  }
}
