/**
 * Loads records into an empty database: creates the schema that the records were read from, then
 * loads all rows in one transaction. A server that starts meanwhile waits for the transaction.
 */
import type pg from 'pg';
import { knownVersions, migrate, migrationLock } from '../migrate.ts';
import { copyIn } from '../pg/copy.ts';
import { listSchemaVersions, listTables, ownSchema, quoteTable, type StoredTable, tableName } from './catalog.ts';
import type { EngineSchema } from './engine-schema.ts';
import { explainLockTimeout, openClient, type WaitLimits } from './open-client.ts';
import type { BackupRecord, End, Layout } from './records.ts';
import { BackupRefused, damagedError, inUseError, truncatedError } from './refusal.ts';
import type { BackupHeader } from './sealed-file.ts';

type SchemaOfBackup = Pick<BackupHeader, 'schema_versions' | 'engine_schema'>;

const newDatabaseRemedy =
  'Use a new database (create database slipway_new owner slipway) or, to restore, a new --data-dir.';

/** Lists the tables that the migrations write, which therefore have rows in a new database. */
const listWrittenByMigrations = (engine: EngineSchema): string[] => [
  `${ownSchema}.schema_migrations`,
  `${ownSchema}.evidence_eras`,
  `${engine.name}.${engine.version_table}`,
];

/** Refuses a backup with a schema that this Slipway does not know. */
export async function refuseNewerSchema(backup: SchemaOfBackup, engine: EngineSchema): Promise<void> {
  const known = await knownVersions();
  const unknown = backup.schema_versions.find((version) => !known.has(version));
  const isEngineNewer = backup.engine_schema > engine.newest;
  if (unknown === undefined && !isEngineNewer) return;
  throw new BackupRefused('schema_newer', 'The schema is newer than this Slipway', {
    why: isEngineNewer
      ? `It has version ${backup.engine_schema} of the engine's tables, and this Slipway knows up to ${engine.newest}.`
      : `It has schema version ${unknown}, which this Slipway does not know.`,
    remedy: 'Use the version of Slipway that migrated the database, or a newer one.',
  });
}

async function refuseRows(client: pg.Client, tables: StoredTable[], engine: EngineSchema): Promise<void> {
  const allowed = listWrittenByMigrations(engine);
  for (const table of tables) {
    if (allowed.includes(tableName(table))) continue;
    const { rows } = await client.query<{ has_rows: boolean }>(
      `select exists (select from ${quoteTable(client, table)}) as has_rows`,
    );
    if (rows[0]?.has_rows)
      throw new BackupRefused('database_not_empty', 'The database is not empty', {
        why: `The table ${tableName(table)} has rows.`,
        remedy: newDatabaseRemedy,
      });
  }
}

async function refuseNewerDatabase(client: pg.Client, backup: SchemaOfBackup, engine: EngineSchema): Promise<void> {
  const present = await listSchemaVersions(client);
  const enginePresent = await engine.readVersion(client);
  const newer = present.find((version) => !backup.schema_versions.includes(version));
  if (newer === undefined && enginePresent <= backup.engine_schema) return;
  throw new BackupRefused('database_newer', 'The database has a newer schema than the backup', {
    why: newer === undefined ? `Its engine tables have version ${enginePresent}.` : `It has schema version ${newer}.`,
    remedy: newDatabaseRemedy,
  });
}

interface Constraint {
  name: string;
  schema: string;
  table: string;
  definition: string;
}

/**
 * Rows arrive table by table, so a row may refer to one that comes later. Only a superuser can
 * disable these checks, so the constraints are dropped and added again, which checks all rows.
 */
async function withoutForeignKeys(client: pg.Client, schemas: string[], work: () => Promise<void>): Promise<void> {
  const { rows: keys } = await client.query<Constraint>(
    `select conname as name, namespace.nspname as schema, relation.relname as table,
       pg_get_constraintdef(pg_constraint.oid) as definition
     from pg_constraint
     join pg_class relation on relation.oid = conrelid
     join pg_namespace namespace on namespace.oid = relation.relnamespace
     where contype = 'f'
       and namespace.nspname = any($1)
       -- The constraints of partitions follow their parent.
       and conparentid = 0
     order by 2, 3, 1`,
    [schemas],
  );
  for (const key of keys)
    await client.query(`alter table ${quoteTable(client, key)} drop constraint ${client.escapeIdentifier(key.name)}`);
  await work();
  for (const key of keys)
    await client.query(
      `alter table ${quoteTable(client, key)} add constraint ${client.escapeIdentifier(key.name)} ${key.definition}`,
    );
}

/** Triggers would count and translate rows a second time: the backup has the rows they wrote. */
async function withoutTriggers(client: pg.Client, tables: StoredTable[], work: () => Promise<void>): Promise<void> {
  for (const table of tables) await client.query(`alter table ${quoteTable(client, table)} disable trigger user`);
  await work();
  for (const table of tables) await client.query(`alter table ${quoteTable(client, table)} enable trigger user`);
}

type Records = AsyncGenerator<BackupRecord>;

async function nextRecord(records: Records): Promise<BackupRecord> {
  const { value, done } = await records.next();
  if (done) throw truncatedError();
  return value;
}

async function loadTable(client: pg.Client, table: StoredTable, records: Records): Promise<number> {
  let expected = -1;
  async function* rows(): AsyncGenerator<Buffer> {
    for (;;) {
      const record = await nextRecord(records);
      if (record.kind === 'rows') yield record.data;
      else if (record.kind === 'table_end') {
        expected = record.rows;
        return;
      } else throw damagedError(`The rows of ${tableName(table)} have no end.`);
    }
  }
  const columns = table.columns.map((column) => client.escapeIdentifier(column)).join(', ');
  const loaded = await copyIn(client, `copy ${quoteTable(client, table)} (${columns}) from stdin`, rows());
  if (loaded !== expected) throw damagedError(`${tableName(table)} has ${loaded} rows instead of ${expected}.`);
  return loaded;
}

async function prepare(
  client: pg.Client,
  { evidence_pieces }: Layout,
  tables: StoredTable[],
  engine: EngineSchema,
): Promise<void> {
  for (const { layer, until } of evidence_pieces) await client.query('select evidence_extend($1, $2)', [layer, until]);
  // The backup has its own rows of these tables. Earlier schemas lack some of the tables.
  const written = listWrittenByMigrations(engine);
  for (const table of tables)
    if (written.includes(tableName(table))) await client.query(`delete from ${quoteTable(client, table)}`);
}

async function setSequences(client: pg.Client, { sequences }: End): Promise<void> {
  for (const { name, last_value } of sequences)
    if (last_value !== null) await client.query('select setval($1::regclass, $2)', [name, last_value]);
}

async function loadAll(
  client: pg.Client,
  tables: StoredTable[],
  records: Records,
  engine: EngineSchema,
): Promise<Record<string, number>> {
  const known = new Set(tables.map(tableName));
  const loaded: Record<string, number> = {};
  for (;;) {
    const record = await nextRecord(records);
    if (record.kind === 'layout') await prepare(client, record, tables, engine);
    else if (record.kind === 'table') {
      if (!known.has(tableName(record))) throw damagedError(`It has an unknown table: ${tableName(record)}.`);
      loaded[tableName(record)] = await loadTable(client, record, records);
    } else if (record.kind === 'end') {
      if (JSON.stringify(loaded) !== JSON.stringify(record.tables)) throw damagedError('Its counts of rows differ.');
      await setSequences(client, record);
      return loaded;
    } else throw damagedError('It has rows outside a table.');
  }
}

const busyRemedy = 'Stop the server and every other client of the database, or use another database.';
const migratingError = () => inUseError('A server is migrating it.', busyRemedy);

async function lockDatabase(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ is_locked: boolean }>('select pg_try_advisory_xact_lock($1) as is_locked', [
    migrationLock,
  ]);
  if (!rows[0]?.is_locked) throw migratingError();
}

export interface LoadOptions {
  url: string;
  backup: SchemaOfBackup;
  engine: EngineSchema;
  /** Called after the checks of the database, before anything is written. */
  records(): Records;
  /** Runs in the transaction of the rows, after them. */
  beforeCommit?(client: pg.Client): Promise<void>;
  limits?: WaitLimits;
}

/** Returns the number of rows of each table. If it throws, it has loaded no rows. */
export async function loadDatabase(options: LoadOptions): Promise<Record<string, number>> {
  const { url, backup, engine, limits } = options;
  const schemas = [ownSchema, engine.name];
  const client = await openClient({ url, application_name: 'slipway restore', limits });
  try {
    await refuseRows(client, await listTables(client, schemas), engine);
    await refuseNewerDatabase(client, backup, engine);
    const records = options.records();
    await migrate(url, {
      only: new Set(backup.schema_versions),
      onWait: () => {
        throw migratingError();
      },
    });
    if (backup.engine_schema > 0) await engine.create(client, backup.engine_schema);
    await client.query('begin');
    await lockDatabase(client);
    const tables = await listTables(client, schemas);
    await refuseRows(client, tables, engine);
    let loaded: Record<string, number> = {};
    await withoutForeignKeys(client, schemas, () =>
      withoutTriggers(client, tables, async () => {
        loaded = await loadAll(client, tables, records, engine);
      }),
    );
    await options.beforeCommit?.(client);
    await client.query('commit');
    // The rows are safe. Autovacuum gathers the statistics later if this fails.
    await client.query('analyze').catch(() => {});
    return loaded;
  } catch (error) {
    throw explainLockTimeout(error, busyRemedy);
  } finally {
    // Ends an open transaction too.
    await client.end();
  }
}
