/** Reads facts about the PostgreSQL server and our database, for `slipway status` and warnings. */
import { type Queryable, single } from '../pg/database.ts';

export interface ConnectionUse {
  used: number;
  /** Without the connections that are reserved for superusers and other roles. */
  limit: number;
}

/** Counts the connections of all programs to all databases of the server. */
export async function readConnectionUse(db: Queryable): Promise<ConnectionUse> {
  return single(
    await db.query<ConnectionUse>(
      `select
         (select sum(numbackends)::int from pg_stat_database) as used,
         current_setting('max_connections')::int
           - current_setting('superuser_reserved_connections')::int
           -- This setting exists from PostgreSQL 16 on.
           - coalesce(current_setting('reserved_connections', true), '0')::int as limit`,
    ),
  );
}

export interface DatabaseFacts {
  server_version: string;
  is_standby: boolean;
  bytes: number;
  schema_version: number;
}

export async function readDatabaseFacts(db: Queryable): Promise<DatabaseFacts> {
  const row = single(
    await db.query<Omit<DatabaseFacts, 'bytes'> & { bytes: string }>(
      `select
         current_setting('server_version') as server_version,
         pg_is_in_recovery() as is_standby,
         pg_database_size(current_database()) as bytes,
         (select max(version)::int from schema_migrations) as schema_version`,
    ),
  );
  return { ...row, bytes: Number(row.bytes) };
}
