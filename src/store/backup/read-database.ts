/**
 * Reads a whole database as records, from one snapshot, while servers keep running. Only changes of
 * the schema wait until the snapshot is closed.
 */
import type pg from 'pg';
import { copyOut } from '../pg/copy.ts';
import {
  listEvidencePieces,
  listSchemaVersions,
  listSequences,
  listTables,
  ownSchema,
  quoteTable,
  type StoredTable,
  tableName,
} from './catalog.ts';
import type { EngineSchema } from './engine-schema.ts';
import { explainLockTimeout, openClient, type WaitLimits } from './open-client.ts';
import type { BackupRecord } from './records.ts';
import { BackupRefused } from './refusal.ts';
import type { NewHeader } from './sealed-file.ts';

/** The chunks of COPY are cut to this size, because a row may be longer than a record should be. */
const maxRowsBytes = 1024 * 1024;

export type BackupFacts = Omit<NewHeader, 'backup_id' | 'slipway_version'>;

export interface DatabaseSnapshot {
  facts: BackupFacts;
  /** Read this once, to its end. */
  records(): AsyncGenerator<BackupRecord>;
  close(): Promise<void>;
}

/** Locks first: an earlier snapshot would miss what a migration changes before the locks. */
async function beginSnapshot(client: pg.Client, schemas: string[]): Promise<StoredTable[]> {
  const tables = await listTables(client, schemas);
  if (!tables.some(({ schema, table }) => schema === ownSchema && table === 'installation'))
    throw new BackupRefused('database_missing', 'There is no Slipway in this database', {
      why: 'It has no table "installation".',
      remedy: 'Name the database of your server with --database-url, or its data directory with --data-dir.',
    });
  await client.query('begin isolation level repeatable read read only');
  await client.query(`lock table ${tables.map((table) => quoteTable(client, table)).join(', ')} in access share mode`);
  const locked = await listTables(client, schemas);
  if (JSON.stringify(locked) !== JSON.stringify(tables))
    throw new BackupRefused('schema_changed', 'The schema changed while the backup began', {
      why: 'A newer Slipway migrated the database at that moment.',
      remedy: 'Run the command again.',
    });
  return tables;
}

async function readFacts(client: pg.Client, engine: EngineSchema): Promise<BackupFacts> {
  const { rows } = await client.query<Pick<BackupFacts, 'taken_at' | 'installation_id' | 'postgres_version'>>(
    `select to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as taken_at,
       (select installation_id from installation) as installation_id,
       current_setting('server_version') as postgres_version`,
  );
  const [row] = rows;
  if (!row) throw new Error('a select without a table returned no row');
  return { ...row, schema_versions: await listSchemaVersions(client), engine_schema: await engine.readVersion(client) };
}

async function* cutChunks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += maxRowsBytes) yield chunk.subarray(at, at + maxRowsBytes);
}

async function* readRecords(client: pg.Client, schemas: string[], tables: StoredTable[]): AsyncGenerator<BackupRecord> {
  yield { kind: 'layout', evidence_pieces: await listEvidencePieces(client) };
  const counts: Record<string, number> = {};
  for (const table of tables) {
    yield { kind: 'table', ...table };
    const columns = table.columns.map((column) => client.escapeIdentifier(column)).join(', ');
    const copy = copyOut(client, `copy (select ${columns} from ${quoteTable(client, table)}) to stdout`);
    for await (const data of cutChunks(copy.data)) yield { kind: 'rows', data };
    const rows = await copy.rows;
    counts[tableName(table)] = rows;
    yield { kind: 'table_end', rows };
  }
  // Sequences have no snapshot. Read last, they are at least as high as any value in the rows.
  yield { kind: 'end', tables: counts, sequences: await listSequences(client, schemas) };
}

const busyRemedy = 'If a server is migrating the database, wait until its start has ended. Then run the command again.';

export async function readDatabase(url: string, engine: EngineSchema, limits?: WaitLimits): Promise<DatabaseSnapshot> {
  const client = await openClient({ url, application_name: 'slipway backup', limits });
  const close = () => client.end();
  try {
    const schemas = [ownSchema, engine.name];
    const tables = await beginSnapshot(client, schemas);
    return { facts: await readFacts(client, engine), records: () => readRecords(client, schemas, tables), close };
  } catch (error) {
    await close().catch(() => {});
    throw explainLockTimeout(error, busyRemedy);
  }
}
