/**
 * Connections to PostgreSQL: one pool, transactions with retries, prepared statements, and errors
 * sorted into "the store is unavailable" and "the statement is wrong".
 */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { createRedactor, type LearningRedactor, type Redactor } from '../../base/redaction/redact.ts';
import type { StoreWatch } from './connections/store-watch.ts';
import { types } from './timestamps.ts';

export type Row = object;

/** Runs statements: the pool, or one open transaction. */
export interface Queryable {
  /**
   * `often`: prepare the statement, so that PostgreSQL parses and plans it once per connection.
   * The plan is made without the values, so these must not decide which plan is best: pass one id,
   * not a list of ids, and write a limit into the text.
   */
  query<R extends Row>(text: string, values?: unknown[], how?: { often?: boolean }): Promise<R[]>;
  /** All statements share one connection, which runs one at a time. */
  readonly one_connection?: true;
  /** Redacts text of machines and people before it is stored, in rows and in evidence alike. */
  readonly redact: Redactor;
  /** Charged for the evidence that is written; see `chargedTo`. */
  readonly account?: WriteAccount;
  /** Call after writing evidence: the tail is woken once the transaction commits. */
  evidenceWritten(): void;
}

/** An open transaction. Functions that must run inside one take this type. */
export interface Transaction extends Queryable {
  readonly transaction: true;
}

export interface Database extends Queryable {
  readonly url: string;
  readonly redact: LearningRedactor;
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Called after each commit that wrote evidence. */
  whenEvidence(listener: () => void): void;
  /**
   * A dedicated connection for LISTEN or a session lock, with its own settings. The caller ends it.
   */
  connect(applicationName: string, settings?: Record<string, string>): Promise<pg.Client>;
  close(): Promise<void>;
}

/** The database did not answer, or the connection broke. A retry is safe. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

/** SQLSTATE classes that mean "the server is not there", not "the statement is wrong". */
const unavailableClasses = ['08', '53', '57', '58'];
const transientCodes = ['40001', '40P01'];
/**
 * A prepared statement is no longer valid: another replica migrated its table, or a connection
 * pooler dropped the statement.
 */
const isStalePlan = (error: unknown): boolean =>
  sqlState(error) === '26000' ||
  (sqlState(error) === '0A000' && error instanceof Error && /cached plan/.test(error.message));
const maxTries = 3;
/**
 * Shorter than a replica's lease: a replica that freezes inside a transaction loses its row locks
 * before another replica takes over.
 */
const idleTransactionMs = 8_000;
/**
 * A login takes four round trips, so a link with 2 s of latency needs 8 s. The store watch drops
 * connections that are lost sooner than this.
 */
const connectTimeoutMs = 20_000;

const sqlState = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  sqlState(error) === '23505' &&
  (constraint === undefined || (error instanceof pg.DatabaseError && error.constraint === constraint));

/** The statement's lock timeout passed. */
export const isLockTimeout = (error: unknown): boolean => sqlState(error) === '55P03';

function classify(error: unknown): unknown {
  if (error instanceof pg.DatabaseError) {
    return unavailableClasses.includes((error.code ?? '').slice(0, 2))
      ? new StoreUnavailable(error.message, { cause: error })
      : error;
  }
  const code = sqlState(error);
  const broken =
    code?.startsWith('E') ||
    (error instanceof Error && /terminated|timeout|closed|not queryable|Cannot use a pool/i.test(error.message));
  return broken
    ? new StoreUnavailable(error instanceof Error ? error.message : 'connection lost', { cause: error })
    : error;
}

export function openDatabase(options: {
  url: string;
  max_connections?: number;
  /** The redactor of this installation; by default the built-in rules. */
  redact?: LearningRedactor;
  on_idle_error?: (error: Error) => void;
  watch?: Pick<StoreWatch, 'Client'>;
}): Database {
  const { redact = createRedactor() } = options;
  const Client = options.watch?.Client ?? pg.Client;
  const pool = new pg.Pool({
    Client,
    connectionString: options.url,
    max: options.max_connections ?? 16,
    application_name: 'slipway',
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: 60_000,
    idle_in_transaction_session_timeout: idleTransactionMs,
    types,
  });
  // Without a listener, an error on a connection would end the process. A broken idle connection is
  // replaced at the next use; a broken one in use fails its statement, which reports the error.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', (error) => {
    if (!pool.ending) options.on_idle_error?.(error);
  });

  let announce: () => void = () => {};
  const names = new Map<string, string>();
  let generation = 0;
  /**
   * Named after the text: a pooler may share connections between processes, and the same name must
   * mean the same statement in all of them.
   */
  const nameOf = (text: string): string => {
    const name = names.get(text) ?? `often_${generation}_${createHash('md5').update(text).digest('base64url')}`;
    names.set(text, name);
    return name;
  };

  const run = async <R extends Row>(
    on: pg.Pool | pg.PoolClient,
    text: string,
    values: unknown[] = [],
    { often = false }: { often?: boolean } = {},
  ): Promise<R[]> => {
    try {
      return (await on.query({ text, values, ...(often && { name: nameOf(text) }) })).rows as R[];
    } catch (error) {
      // New names make every connection prepare its statements again.
      if (isStalePlan(error)) {
        generation++;
        names.clear();
      }
      throw classify(error);
    }
  };

  const retry = async <T>(work: () => Promise<T>, isTransient: (error: unknown) => boolean): Promise<T> => {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (tries >= maxTries || !isTransient(error)) throw error;
      }
    }
  };

  const attempt = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> => {
    const client = await pool.connect().catch((error) => {
      throw classify(error);
    });
    let wrote = false;
    const tx: Transaction = {
      transaction: true,
      one_connection: true,
      query: (text, values, how) => run(client, text, values, how),
      redact,
      evidenceWritten: () => {
        wrote = true;
      },
    };
    let broken: Error | undefined;
    // An error between two statements is only emitted; without a listener it would end the process.
    const onBroken = (error: Error) => {
      broken = error;
    };
    client.on('error', onBroken);
    try {
      await run(client, 'begin');
      const result = await work(tx);
      await run(client, 'commit');
      if (wrote) announce();
      return result;
    } catch (error) {
      // If the rollback fails, the connection is gone, and the transaction with it.
      await client.query('rollback').catch((lost: Error) => {
        broken = lost;
      });
      throw error;
    } finally {
      client.removeListener('error', onBroken);
      client.release(broken);
    }
  };

  return {
    url: options.url,
    query: (text, values, how) => retry(() => run(pool, text, values, how), isStalePlan),
    redact,
    evidenceWritten: () => announce(),
    whenEvidence(listener) {
      announce = listener;
    },
    transaction: (work) =>
      retry(
        () => attempt(work),
        (error) => isStalePlan(error) || transientCodes.includes(sqlState(error) ?? ''),
      ),
    async connect(application_name, settings = {}) {
      const client = new Client({
        connectionString: options.url,
        application_name,
        options: Object.entries(settings)
          .map(([name, value]) => `-c ${name}=${value}`)
          .join(' '),
        keepAlive: true,
        connectionTimeoutMillis: connectTimeoutMs,
        types,
      });
      // If it breaks before the caller listens, the caller's first statement fails; the event alone
      // would end the process.
      client.on('error', () => {});
      await client.connect().catch((error) => {
        throw classify(error);
      });
      return client;
    },
    close: () => pool.end(),
  };
}

/** The only row of a result; throws if there is none or more than one. */
export function single<R>(rows: R[]): R {
  const [row] = rows;
  if (row === undefined || rows.length !== 1) throw new Error(`expected one row, got ${rows.length}`);
  return row;
}

/** Counts the evidence that an outside caller causes, for its quota. */
export interface WriteAccount {
  charge(rows: number, bytes: number): void;
}

export const chargedTo = (db: Database, account: WriteAccount): Database => ({
  ...db,
  account,
  transaction: (work) => db.transaction((tx) => work({ ...tx, account })),
});

/**
 * A database that runs every statement in one open transaction, so that work made of several
 * transactions is committed as a whole. The caller that opened the transaction ends it.
 */
export const withinTransaction = (db: Database, tx: Transaction): Database => ({
  ...db,
  one_connection: true,
  query: (text, values, how) => tx.query(text, values, how),
  evidenceWritten: () => tx.evidenceWritten(),
  // No savepoint: if a part fails, the whole transaction fails.
  transaction: (work) => work(tx),
});

type Reads = readonly (() => Promise<unknown>)[];
type Results<All extends Reads> = { [Index in keyof All]: Awaited<ReturnType<All[Index]>> };

/** Runs independent reads: in parallel on a pool, one after another on a single connection. */
export async function readAll<const All extends Reads>(db: Queryable, reads: All): Promise<Results<All>> {
  if (!db.one_connection) return (await Promise.all(reads.map(async (read) => read()))) as Results<All>;
  const results: unknown[] = [];
  for (const read of reads) results.push(await read());
  return results as Results<All>;
}
