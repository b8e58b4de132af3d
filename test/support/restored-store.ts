/**
 * Restores a database into a fresh cluster, as a logical dump does: schema, functions, rows and
 * sequences, but no transaction ids. Compares the rows of two databases.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { listTables, tableName } from '../../src/store/backup/catalog.ts';
import { migrate } from '../../src/store/migrate.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { volatileSettings } from '../../src/store/pg/embedded/settings.ts';
import { withClient } from './database.ts';

export interface FreshCluster {
  url: string;
  application_url: string;
  stop(): Promise<void>;
}

export async function freshCluster(): Promise<FreshCluster> {
  const dataDir = await mkdtemp(join(tmpdir(), 'slipway-restored-'));
  // PostgreSQL runs as another user than root, and that user must enter the directory.
  await chmod(dataDir, 0o711);
  const postgres = await startEmbeddedPostgres({ dataDir, clock: systemClock, settings: volatileSettings });
  return {
    url: postgres.url,
    application_url: postgres.application_url,
    async stop() {
      await postgres.stop();
      await rm(postgres.clusterDir, { recursive: true, force: true });
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Uses up transaction ids, so that the counter of this cluster is far ahead of a fresh one. */
export const useTransactionIds = (db: Pick<Database, 'query'>, count: number) =>
  db.query(`do $$ begin for i in 1..${count} loop perform pg_current_xact_id(); commit; end loop; end $$`);

/** The tables that a dump names. Partitions are restored through their parents. */
const tables = `
  select relname as name
  from pg_class
  where relnamespace = 'public'::regnamespace
    and relkind in ('r', 'p')
    and not relispartition
    and relname <> 'schema_migrations'`;

const sequences = `
  select sequencename as name, last_value::text as last_value
  from pg_sequences
  where schemaname = 'public'
    and last_value is not null`;

const functions = `
  select pg_get_functiondef(oid) as definition
  from pg_proc
  where pronamespace = 'public'::regnamespace
    and prokind = 'f'
    and prolang <> (select oid from pg_language where lanname = 'c')`;

interface RestoreOptions {
  /** Keep the functions and the eras of the target, which the migrations made. */
  rows_only?: boolean;
}

/** Migrates an empty target, and copies rows, sequences and functions of `from` into it. */
export async function restoreInto(url: string, from: Database, { rows_only = false }: RestoreOptions = {}) {
  await migrate(url);
  const to = openDatabase({ url, max_connections: 1 });
  try {
    await to.query('set session_replication_role = replica');
    for (const { name } of await from.query<{ name: string }>(tables)) {
      if (rows_only && name === 'evidence_eras') continue;
      const rows = await from.query<{ row: unknown }>(`select to_jsonb(stored) as row from ${name} stored`);
      await to.query(`truncate ${name} cascade`);
      await to.query(
        `insert into ${name} overriding system value
         select * from jsonb_populate_recordset(null::${name}, $1::jsonb)`,
        [JSON.stringify(rows.map(({ row }) => row))],
      );
    }
    for (const { name, last_value } of await from.query<{ name: string; last_value: string }>(sequences))
      await to.query('select setval($1::regclass, $2)', [name, last_value]);
    if (!rows_only)
      for (const { definition } of await from.query<{ definition: string }>(functions)) await to.query(definition);
  } finally {
    await to.close();
  }
}

const schemas = ['public', 'dbos'];

/** The rows that were in a database before it was copied. */
const copiedRows: Record<string, string> = {
  'public.evidence': `where kind <> 'evidence.restored'`,
  'public.evidence_eras': 'where era = 0',
  'public.restorations': 'where ended_at is not null',
};

/** Reads a digest of the rows of each table, without those that a restore adds. */
export const readDigests = (url: string): Promise<Record<string, string>> =>
  withClient(url, async (client) => {
    const digests: Record<string, string> = {};
    await client.query(`set timezone = 'UTC'`);
    for (const table of await listTables(client, schemas)) {
      const name = tableName(table);
      const { rows } = await client.query<{ digest: string }>(
        `select count(*) || ' ' || coalesce(md5(string_agg(row_::text, '|' order by row_::text collate "C")), '') as digest
         from ${name} row_
         ${copiedRows[name] ?? ''}`,
      );
      digests[name] = rows[0]?.digest ?? '';
    }
    return digests;
  });

export const listTableNames = (url: string): Promise<string[]> =>
  withClient(url, async (client) => (await listTables(client, schemas)).map(tableName));

export interface StoredEra {
  era: string;
  /** The field `sign` of the fact that records the era; null for the first era. */
  sign: string | null;
}

export const readEras = (url: string): Promise<StoredEra[]> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<StoredEra>(
      `select eras.era::text as era, fact.data ->> 'sign' as sign
       from evidence_eras eras
       left join evidence fact
         on fact.kind = 'evidence.restored'
        and fact.data ->> 'era' = eras.era::text
       order by eras.era`,
    );
    return rows;
  });
