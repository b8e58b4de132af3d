/** Runs the forward migrations, one transaction each, one migrating replica at a time; refuses a schema newer than this code. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { grantApplication } from './application-role.ts';
import { type Queryable, single } from './database.ts';

const ownMigrations = fileURLToPath(new URL('./migrations/', import.meta.url));
const migrationLock = 7_213_001;

export class SchemaTooNew extends Error {
  override name = 'SchemaTooNew';
}

export class OtherDatabase extends Error {
  override name = 'OtherDatabase';
}

/** Whom the application runs as. Asked while migrations hold their lock, which nobody in the same database can take as well. */
export async function applicationRole(db: Queryable): Promise<string> {
  const { role, is_free } = single(
    await db.query<{ role: string; is_free: boolean }>(
      'select current_user as role, pg_try_advisory_xact_lock($1) as is_free',
      [migrationLock],
    ),
  );
  if (is_free)
    throw new OtherDatabase(
      '--database-url and --owner-database-url do not lead to the same database. Give both the same host, port and name, and each its own role.',
    );
  return role;
}

interface Migration {
  version: number;
  name: string;
  sql: string;
}

async function migrationsIn(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => ({
      version: Number.parseInt(name, 10),
      name,
      sql: await readFile(join(folder, name), 'utf8'),
    })),
  );
}

/** `url` is the owner's; whoever else the application runs as gets its rights. */
export async function migrate(
  url: string,
  { folder = ownMigrations, application_role }: { folder?: string; application_role?: () => Promise<string> } = {},
): Promise<{ applied: string[] }> {
  const known = await migrationsIn(folder);
  const client = new pg.Client({
    connectionString: url,
    application_name: 'slipway migrate',
    connectionTimeoutMillis: 15_000,
  });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [migrationLock]);
    const role = await application_role?.();
    await client.query(
      'create table if not exists schema_migrations (version integer primary key, name text not null, applied_at timestamptz not null default now())',
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
      await client.query('begin');
      await client.query(migration.sql);
      await client.query('insert into schema_migrations (version, name) values ($1, $2)', [
        migration.version,
        migration.name,
      ]);
      await client.query('commit');
      applied.push(migration.name);
    }
    if (role !== undefined) await grantApplication(client, role, applied.length > 0);
    return { applied };
  } finally {
    await client.end();
  }
}
