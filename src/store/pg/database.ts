/**
 * Connects to PostgreSQL: a pool, transactions with retries, and prepared statements. Errors are
 * sorted into "the store is unavailable" and "the statement is wrong".
 */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { createRedactor, type LearningRedactor, type Redactor } from '../../base/redaction/redact.ts';
import { FailoverClient, readOnlyState } from './connections/failover-client.ts';
import { GrantedPool } from './connections/granted-pool.ts';
import type { StoreWatch } from './connections/store-watch.ts';
import { isUnavailableCode } from './connections/unavailable-codes.ts';
import { types } from './timestamps.ts';

export type Row = object;

/** Runs statements on the pool or in an open transaction. */
export interface Queryable {
  /**
   * A `prepared` statement is parsed and planned once per connection. The plan is made without the
   * values, so the best plan must not depend on them: pass one id instead of a list of ids, and
   * write a limit into the text.
   */
  query<R extends Row>(text: string, values?: unknown[], options?: { prepared?: boolean }): Promise<R[]>;
  /** Set if all statements share one connection, which runs one at a time. */
  readonly one_connection?: true;
  /** Redacts text from machines and people before it is stored in rows or evidence. */
  readonly redact: Redactor;
  /** The account that is charged for written evidence; see `withWriteAccount`. */
  readonly account?: WriteAccount;
  /** Call this after writing evidence, so that the commit wakes the tail. */
  markEvidenceWritten(): void;
}

/** An open transaction. Functions that must run inside one take this type. */
export interface Transaction extends Queryable {
  readonly transaction: true;
}

export interface Database extends Queryable {
  readonly url: string;
  readonly redact: LearningRedactor;
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Sets the listener that is called after each commit that wrote evidence. */
  whenEvidence(listener: () => void): void;
  /** Opens a dedicated connection for LISTEN or a session lock. The caller ends it. */
  connect(applicationName: string, settings?: Record<string, string>): Promise<pg.Client>;
  /** Returns how many callers wait for a free connection of the pool. */
  countWaiting(): number;
  /** Whether the database refuses connections and the pool has fewer than half of its maximum. */
  isShortOfConnections(): boolean;
  close(): Promise<void>;
}

/**
 * The database did not answer, cannot work at the moment, or the connection broke. A later try may
 * succeed. If the connection broke during a commit, the transaction may have been committed.
 */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

const transientCodes = ['40001', '40P01'];
/** Another replica migrated a table of the statement, or a pooler dropped the statement. */
const isStalePlan = (error: unknown): boolean =>
  sqlState(error) === '26000' ||
  (sqlState(error) === '0A000' && error instanceof Error && /cached plan/.test(error.message));
const maxTries = 3;
/**
 * Shorter than a replica's lease, so that a replica that freezes inside a transaction loses its row
 * locks before another replica takes over.
 */
const idleTransactionMs = 8_000;
/**
 * A login takes four round trips, so a link with 2 s of latency needs 8 s. The store watch finds
 * lost connections before this time.
 */
const connectTimeoutMs = 20_000;
/**
 * Kept open while idle, so that heartbeats are stored even if other programs take all connections
 * of the database.
 */
const minConnections = 2;

const sqlState = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  sqlState(error) === '23505' &&
  (constraint === undefined || (error instanceof pg.DatabaseError && error.constraint === constraint));

/** Whether the statement waited longer for a lock than its timeout allows. */
export const isLockTimeout = (error: unknown): boolean => sqlState(error) === '55P03';

/** Returns the cause if the error means that the database takes no writes. */
export function toStoreFault(error: unknown): 'read_only' | 'disk_full' | undefined {
  const code = sqlState(error instanceof StoreUnavailable ? error.cause : error);
  if (code === readOnlyState) return 'read_only';
  return code === '53100' ? 'disk_full' : undefined;
}

/** Whether the statement exceeded a limit that the database administrator set. */
export const isOverLimit = (error: unknown): boolean =>
  sqlState(error instanceof StoreUnavailable ? error.cause : error) === '53400';

function classify(error: unknown): unknown {
  if (error instanceof pg.DatabaseError) {
    // A read-only server is a standby or a former primary.
    return error.code === readOnlyState || isUnavailableCode(error.code)
      ? new StoreUnavailable(error.message, { cause: error })
      : error;
  }
  const code = sqlState(error);
  const isBroken =
    code?.startsWith('E') ||
    (error instanceof Error && /terminated|timeout|closed|not queryable|Cannot use a pool/i.test(error.message));
  return isBroken
    ? new StoreUnavailable(error instanceof Error ? error.message : 'connection lost', { cause: error })
    : error;
}

export function openDatabase(options: {
  url: string;
  max_connections?: number;
  /** The redactor of this installation. The default has only the built-in rules. */
  redact?: LearningRedactor;
  on_idle_error?: (error: Error) => void;
  watch?: Pick<StoreWatch, 'Client'>;
}): Database {
  const { redact = createRedactor() } = options;
  const Client = options.watch?.Client ?? FailoverClient;
  const max = options.max_connections ?? 16;
  const pool = new GrantedPool({
    Client,
    connectionString: options.url,
    max,
    min: Math.min(minConnections, max),
    application_name: 'slipway',
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: 60_000,
    idle_in_transaction_session_timeout: idleTransactionMs,
    types,
  });
  pool.on('error', (error) => {
    if (!pool.ending) options.on_idle_error?.(error);
  });

  let notifyEvidence: () => void = () => {};
  const statementNames = new Map<string, string>();
  let generation = 0;
  /**
   * Derives the name from the text. A pooler may share connections between processes, and a name
   * must mean the same statement in all of them.
   */
  const nameStatement = (text: string): string => {
    const name =
      statementNames.get(text) ?? `prepared_${generation}_${createHash('md5').update(text).digest('base64url')}`;
    statementNames.set(text, name);
    return name;
  };

  const run = async <R extends Row>(
    connection: pg.Pool | pg.PoolClient,
    text: string,
    values: unknown[] = [],
    { prepared = false }: { prepared?: boolean } = {},
  ): Promise<R[]> => {
    try {
      return (await connection.query({ text, values, ...(prepared && { name: nameStatement(text) }) })).rows as R[];
    } catch (error) {
      // New names make every connection prepare its statements again.
      if (isStalePlan(error)) {
        generation++;
        statementNames.clear();
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

  const attemptTransaction = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> => {
    const client = await pool.connect().catch((error) => {
      throw classify(error);
    });
    let wroteEvidence = false;
    const tx: Transaction = {
      transaction: true,
      one_connection: true,
      query: (text, values, options) => run(client, text, values, options),
      redact,
      markEvidenceWritten: () => {
        wroteEvidence = true;
      },
    };
    let connectionError: Error | undefined;
    // An error between two statements is only emitted; without a listener it would end the process.
    const onBroken = (error: Error) => {
      connectionError = error;
    };
    client.on('error', onBroken);
    try {
      await run(client, 'begin');
      const result = await work(tx);
      await run(client, 'commit');
      if (wroteEvidence) notifyEvidence();
      return result;
    } catch (error) {
      // If the rollback fails, the connection is gone, and the transaction with it.
      await client.query('rollback').catch((rollbackError: Error) => {
        connectionError = rollbackError;
      });
      throw error;
    } finally {
      client.removeListener('error', onBroken);
      client.release(connectionError);
    }
  };

  return {
    url: options.url,
    query: (text, values, options) => retry(() => run(pool, text, values, options), isStalePlan),
    redact,
    markEvidenceWritten: () => notifyEvidence(),
    whenEvidence(listener) {
      notifyEvidence = listener;
    },
    transaction: (work) =>
      retry(
        () => attemptTransaction(work),
        (error) => isStalePlan(error) || transientCodes.includes(sqlState(error) ?? ''),
      ),
    async connect(application_name, settings = {}) {
      const client = new Client({
        connectionString: options.url,
        application_name,
        keepAlive: true,
        connectionTimeoutMillis: connectTimeoutMs,
        types,
      });
      try {
        await client.connect();
        // A pooler refuses settings at login, so they are set here.
        for (const [name, value] of Object.entries(settings))
          await client.query('select set_config($1, $2, false)', [name, value]);
      } catch (error) {
        client.end().catch(() => {});
        throw classify(error);
      }
      return client;
    },
    countWaiting: () => pool.waitingCount,
    isShortOfConnections: () => pool.isShort(),
    close: () => pool.end(),
  };
}

/** Returns the only row of a result. Throws if there is none or more than one. */
export function single<R>(rows: R[]): R {
  const [row] = rows;
  if (row === undefined || rows.length !== 1) throw new Error(`expected one row, got ${rows.length}`);
  return row;
}

/** Counts the evidence that an outside caller causes against its quota. */
export interface WriteAccount {
  charge(rows: number, bytes: number): void;
}

export const withWriteAccount = (db: Database, account: WriteAccount): Database => ({
  ...db,
  account,
  transaction: (work) => db.transaction((tx) => work({ ...tx, account })),
});

/**
 * Returns a database that runs every statement in one open transaction, so that work made of
 * several transactions is committed as a whole. The caller that opened the transaction ends it.
 */
export const withinTransaction = (db: Database, tx: Transaction): Database => ({
  ...db,
  one_connection: true,
  query: (text, values, options) => tx.query(text, values, options),
  markEvidenceWritten: () => tx.markEvidenceWritten(),
  // There is no savepoint, so if a part fails, the whole transaction fails.
  transaction: (work) => work(tx),
});

type Reads = readonly (() => Promise<unknown>)[];
type Results<All extends Reads> = { [Index in keyof All]: Awaited<ReturnType<All[Index]>> };

/** Runs independent reads, in parallel on a pool and one after another on a single connection. */
export async function readAll<const All extends Reads>(db: Queryable, reads: All): Promise<Results<All>> {
  if (!db.one_connection) return (await Promise.all(reads.map(async (read) => read()))) as Results<All>;
  const results: unknown[] = [];
  for (const read of reads) results.push(await read());
  return results as Results<All>;
}
