/**
 * Runs the forward migrations, each in its own transaction, on one replica at a time. Refuses a
 * schema that is newer than this code.
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
import { type BegunEra, beginEraIfRestored } from './evidence/eras.ts';
import { grantApplication } from './pg/application-role.ts';
import { FailoverClient } from './pg/connections/failover-client.ts';
import { type Queryable, single } from './pg/database.ts';

const ownMigrations = fileURLToPath(new URL('./migrations/', import.meta.url));
const migrationLock = 7_213_001;
/** Statements of other replicas queue behind a waiting migration for at most this time. */
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

export class SchemaTooNew extends Error {
  override name = 'SchemaTooNew';
}

export class OtherDatabase extends Error {
  override name = 'OtherDatabase';
}

/**
 * Returns the role that the application runs as. Call this while a migration holds its lock. If the
 * lock can be taken here, the two URLs are different databases.
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

interface Migration {
  version: number;
  name: string;
  sql: string;
}

/** The session that holds the migration lock. Null for what the role may not see. */
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
 * the holder at first and then every 10 s.
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

const insertMigration = 'insert into schema_migrations (version, name) values ($1, $2)';

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

const applyInTransaction = (client: pg.Client, { version, name, sql }: Migration): Promise<void> =>
  inTransaction(client, async () => {
    await client.query(sql);
    await client.query(insertMigration, [version, name]);
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

async function applyOnline(client: pg.Client, { version, name, sql }: Migration): Promise<void> {
  await dropInvalidIndexes(client);
  for (const statement of sql.split(/;\s*$/m))
    if (/^\s*[a-z]/im.test(withoutComments(statement))) await client.query(statement);
  await client.query(insertMigration, [version, name]);
}

const withoutComments = (sql: string): string => sql.replaceAll(/^\s*--.*$/gm, '');
const isOnline = ({ sql }: Migration): boolean => /^-- online\b/.test(sql);

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => ({
      version: Number.parseInt(name, 10),
      name,
      sql: await readFile(join(folder, name), 'utf8'),
    })),
  );
}

/**
 * Migrates the database. `url` connects as the owner of the tables. If the application has another
 * role, that role gets its rights. Begins an era of evidence if the database was restored.
 */
export async function migrate(
  url: string,
  {
    folder = ownMigrations,
    application_role,
    onWait,
  }: {
    folder?: string;
    application_role?: () => Promise<string>;
    /** Called while another session holds the migration lock. */
    onWait?(holder: LockHolder): void;
  } = {},
): Promise<{ applied: string[]; restored?: BegunEra }> {
  const known = await readMigrations(folder);
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
    const { rows } = await client.query<{ version: number }>('select version from schema_migrations order by version');
    const done = new Set(rows.map((row) => row.version));
    const newest = Math.max(0, ...done);
    const supported = Math.max(0, ...known.map((each) => each.version));
    if (newest > supported) {
      throw new SchemaTooNew(
        `the database has schema version ${newest}, this Slipway knows ${supported}: start a newer Slipway, or restore a backup made by this one`,
      );
    }
    const applied: string[] = [];
    for (const migration of known.filter((each) => !done.has(each.version))) {
      await (isOnline(migration) ? applyOnline(client, migration) : applyInTransaction(client, migration));
      applied.push(migration.name);
    }
    if (role !== undefined) await grantApplication(client, role, applied.length > 0);
    // Not with the first files alone, as in a test of the migrations.
    const knowsEras = known.some(({ name }) => name.endsWith('-evidence-eras.sql'));
    const restored = knowsEras ? await inTransaction(client, () => beginEraIfRestored(client)) : undefined;
    return { applied, ...(restored && { restored }) };
  } finally {
    // The end of the connection does not release the lock if a pooler keeps the session.
    await client.query('select pg_advisory_unlock_all()').catch(() => {});
    await client.end();
  }
}
