/**
 * Counts what a database does in a window: transactions, commits that write, bytes of WAL, and the
 * tables and statements behind them. The views live in the database `postgres`, so that reading
 * them is not counted.
 */
import pg from 'pg';
import type { Settings } from '../../src/store/pg/embedded/settings.ts';

/** Settings that the counting needs; they change neither the WAL nor the transactions. */
export const countingSettings: Settings = {
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.max': '2000',
};

export interface StatementUse {
  text: string;
  calls: number;
  wal_bytes: number;
}

export interface DatabaseUse {
  /** Committed transactions, with those that only read. */
  transactions: number;
  /** Commits that wrote a commit record. */
  written_commits: number;
  /** WAL without full pages. */
  wal_bytes: number;
  /** Bytes of the pages that were logged in full, at their first change after the checkpoint. */
  page_bytes: number;
  /** Sorted, the most bytes first. A change is counted without the header of its commit. */
  tables: { name: string; records: number; bytes: number }[];
  statements: StatementUse[];
}

export interface WalCounter {
  /**
   * Begins with a vacuum, so that autovacuum has nothing left to do for earlier changes, and a
   * checkpoint. Returns the function that ends the window and reads its counts.
   */
  begin(): Promise<() => Promise<DatabaseUse>>;
  countConnections(): Promise<number>;
  end(): Promise<void>;
}

async function openClient(url: string, name: string): Promise<pg.Client> {
  const target = new URL(url);
  target.pathname = `/${name}`;
  const client = new pg.Client({ connectionString: target.href });
  // A broken connection also rejects the running query; the event alone would end the process.
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** `url` must connect as a superuser. */
export async function openWalCounter(url: string): Promise<WalCounter> {
  const counted = new URL(url).pathname.slice(1);
  const client = await openClient(url, 'postgres');
  const read = async <R>(text: string, values: unknown[] = []): Promise<R[]> =>
    (await client.query(text, values)).rows as R[];
  const readOne = async <R>(text: string, values: unknown[] = []): Promise<R> => {
    const [row] = await read<R>(text, values);
    if (!row) throw new Error(`no row: ${text}`);
    return row;
  };
  await read('create extension if not exists pg_stat_statements');
  await read('create extension if not exists pg_walinspect');
  const readTransactions = async () =>
    Number(
      (
        await readOne<{ count: string }>('select xact_commit as count from pg_stat_database where datname = $1', [
          counted,
        ])
      ).count,
    );
  const readPosition = async () =>
    (await readOne<{ lsn: string }>('select pg_current_wal_insert_lsn()::text as lsn')).lsn;

  const inCounted = async <T>(work: (own: pg.Client) => Promise<T>): Promise<T> => {
    const own = await openClient(url, counted);
    try {
      return await work(own);
    } finally {
      await own.end();
    }
  };

  /** Table names by file. They can be read only in the counted database. */
  const readNames = () =>
    inCounted(async (own) => {
      const { rows } = await own.query<{ file: string; name: string }>(
        `select pg_relation_filenode(oid)::text as file, oid::regclass::text as name
         from pg_class
         where pg_relation_filenode(oid) is not null`,
      );
      return new Map(rows.map(({ file, name }) => [file, name]));
    });

  const readTables = async (from: string, to: string): Promise<DatabaseUse['tables']> => {
    const names = await readNames();
    const rows = await read<{ file: string; records: number; bytes: number }>(
      `select relfilenode::text as file,
         count(distinct start_lsn)::int as records,
         sum(record_length - block_fpi_length)::double precision as bytes
       from pg_get_wal_block_info($1, $2, false)
       group by 1
       order by 3 desc`,
      [from, to],
    );
    return rows.map(({ file, records, bytes }) => ({ name: names.get(file) ?? `file ${file}`, records, bytes }));
  };

  return {
    async begin() {
      // The second vacuum removes the statistics that the first one replaced.
      for (const vacuum of ['vacuum (analyze)', 'vacuum']) await inCounted((own) => own.query(vacuum));
      await read('checkpoint');
      await read('select pg_stat_statements_reset()');
      const [before, from] = [await readTransactions(), await readPosition()];
      return async () => {
        const to = await readPosition();
        const transactions = (await readTransactions()) - before;
        const statements = await read<StatementUse>(
          `select query as text, calls::double precision as calls, wal_bytes::double precision as wal_bytes
           from pg_stat_statements
           where dbid = (select oid from pg_database where datname = $1)
           order by calls desc`,
          [counted],
        );
        // The commit of this transaction flushes the log up to `to`; only flushed log can be read.
        await read('select pg_current_xact_id()');
        const { wal_bytes, page_bytes } = await readOne<{ wal_bytes: number; page_bytes: number }>(
          `select sum(record_size)::double precision as wal_bytes, sum(fpi_size)::double precision as page_bytes
           from pg_get_wal_stats($1, $2, false)`,
          [from, to],
        );
        const { count: written_commits } = await readOne<{ count: number }>(
          `select count(*)::int as count
           from pg_get_wal_records_info($1, $2)
           where resource_manager = 'Transaction'
             and record_type like 'COMMIT%'`,
          [from, to],
        );
        return { transactions, written_commits, wal_bytes, page_bytes, tables: await readTables(from, to), statements };
      };
    },
    async countConnections() {
      const { count } = await readOne<{ count: number }>(
        `select count(*)::int as count
         from pg_stat_activity
         where datname = $1
           and backend_type = 'client backend'`,
        [counted],
      );
      return count;
    },
    end: () => client.end(),
  };
}
