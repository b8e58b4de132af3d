/** Snapshots of the store, to show that a refused call changed nothing. */
import pg from 'pg';

/**
 * Tables that are not compared. Leases and heartbeats change by themselves, the last use of a token
 * is written after the call, and an idempotency key records a call, not its effect. Evidence is
 * compared separately.
 */
const changingTables = ['replicas', 'heartbeats', 'evidence', 'idempotency_keys', 'token_uses'];
/** Kinds of evidence that record a refusal. A refused call may add these rows. */
const refusalKinds = ['request.denied', 'beat.refused', 'registration.refused', 'action.refused', 'evidence.dropped'];

export interface Tables {
  /** Returns a fingerprint of every compared table. */
  snapshot(): Promise<Record<string, string>>;
  query<R extends object>(text: string, values?: unknown[]): Promise<R[]>;
  close(): Promise<void>;
}

export async function openTables(database_url: string): Promise<Tables> {
  const client = new pg.Client({ connectionString: database_url });
  await client.connect();
  const query = async <R extends object>(text: string, values: unknown[] = []): Promise<R[]> =>
    (await client.query(text, values)).rows as R[];
  const tables = await query<{ name: string }>(
    `select table_name as name
     from information_schema.tables
     where table_schema = 'public'
       and table_type = 'BASE TABLE'
       and table_name not like 'evidence%'
     order by 1`,
  );
  const comparedTables = tables.map(({ name }) => name).filter((name) => !changingTables.includes(name));
  // The statement is prepared once, because some tests take thousands of snapshots.
  const text = [
    ...comparedTables.map(
      (name) =>
        `select '${name}' as name,
           count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as fingerprint
         from ${name} t`,
    ),
    // Rows are counted by kind, so that a failing test shows which kind was added.
    `select 'evidence', coalesce(string_agg(kind || ' ' || facts, ', ' order by kind), '')
     from (
       select kind, count(*) as facts
       from evidence
       where kind <> all('{${refusalKinds}}')
       group by kind
     ) recorded`,
  ].join(' union all ');
  return {
    query,
    async snapshot() {
      const { rows } = await client.query<{ name: string; fingerprint: string }>({ name: 'snapshot', text });
      return Object.fromEntries(rows.map(({ name, fingerprint }) => [name, fingerprint]));
    },
    close: () => client.end(),
  };
}
