/** Lists the tables, columns, sequences, evidence partitions and migrations of a database. */
import type pg from 'pg';
import type { EvidencePiece, SequenceValue } from './records.ts';

export const ownSchema = 'public';

export interface StoredTable {
  schema: string;
  table: string;
  columns: string[];
}

/** The name in the counts of a backup and in messages. */
export const tableName = ({ schema, table }: Pick<StoredTable, 'schema' | 'table'>): string => `${schema}.${table}`;

/** The escaped name, for SQL. */
export const quoteTable = (client: pg.Client, { schema, table }: Pick<StoredTable, 'schema' | 'table'>): string =>
  `${client.escapeIdentifier(schema)}.${client.escapeIdentifier(table)}`;

/** Partitions are read and loaded through their parent. */
const tables = `
  select namespace.nspname as schema, relation.relname as table,
    coalesce(
      array_agg(column_.attname::text order by column_.attnum) filter (where column_.attname is not null),
      '{}'
    ) as columns
  from pg_class relation
  join pg_namespace namespace on namespace.oid = relation.relnamespace
  left join pg_attribute column_
    on column_.attrelid = relation.oid
   and column_.attnum > 0
   and not column_.attisdropped
   and column_.attgenerated = ''
  where namespace.nspname = any($1)
    -- Ordinary and partitioned tables.
    and relation.relkind in ('r', 'p')
    and not relation.relispartition
  group by 1, 2
  order by 1 desc, 2`;

export async function listTables(client: pg.Client, schemas: string[]): Promise<StoredTable[]> {
  return (await client.query<StoredTable>(tables, [schemas])).rows;
}

export async function listSequences(client: pg.Client, schemas: string[]): Promise<SequenceValue[]> {
  const { rows } = await client.query<SequenceValue>(
    `select format('%I.%I', schemaname, sequencename) as name, last_value::text as last_value
     from pg_sequences
     where schemaname = any($1)
     order by 1`,
    [schemas],
  );
  return rows;
}

/** Sorted in the order in which `evidence_extend` creates them. */
export async function listEvidencePieces(client: pg.Client): Promise<EvidencePiece[]> {
  // Migration 0049 renamed the function to `evidence_closed_pieces`.
  const { rows: names } = await client.query<{ function: string | null }>(
    `select coalesce(to_regproc('evidence_closed_pieces'), to_regproc('evidence_pieces'))::text as function`,
  );
  const { rows } = await client.query<EvidencePiece>(
    `select layer, to_char(until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as until
     from ${names[0]?.function ?? 'evidence_closed_pieces'}() piece
     order by layer, piece.until`,
  );
  return rows;
}

/** Lists the migrations that the database has. Empty for a database without our schema. */
export async function listSchemaVersions(client: pg.Client): Promise<number[]> {
  const { rows } = await client.query<{ is_present: boolean }>(
    `select to_regclass('public.schema_migrations') is not null as is_present`,
  );
  if (!rows[0]?.is_present) return [];
  const migrations = await client.query<{ version: number }>('select version from schema_migrations order by version');
  return migrations.rows.map(({ version }) => version);
}

/**
 * Settings of the session: no time limits, and values as text that PostgreSQL of any version and
 * setting reads back as the same value.
 */
export const portableText = [
  `set timezone = 'UTC'`,
  `set datestyle = 'ISO, YMD'`,
  `set intervalstyle = 'postgres'`,
  'set extra_float_digits = 3',
  'set statement_timeout = 0',
  'set idle_in_transaction_session_timeout = 0',
].join(';');
