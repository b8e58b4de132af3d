/** The door to PostgreSQL: one pool of connections, transactions, and errors told apart by whose fault they are. */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { createRedactor, type LearningRedactor, type Redactor } from '../../base/redaction/redact.ts';
import type { StoreWatch } from './connections/store-watch.ts';
import { types } from './timestamps.ts';

export type Row = object;

/** Whatever can run a statement: the pool, or one open transaction. */
export interface Queryable {
  /**
   * `often`: the database reads and plans the statement once for each connection, and not each time anew. It plans without
   * knowing the values, so these must not decide what the best way is: an id, not a list of them; a limit that stands in the text.
   */
  query<R extends Row>(text: string, values?: unknown[], how?: { often?: boolean }): Promise<R[]>;
  /** All statements go through one connection, which answers one at a time. */
  readonly one_connection?: true;
  /** Whatever words of machines and people are stored go through it, rows and their evidence alike. */
  readonly redact: Redactor;
  /** Whoever pays for the evidence that is written through it; see write-account.ts. */
  readonly account?: WriteAccount;
  /** Evidence was written: once it is committed, whoever follows the evidence is woken. */
  evidenceWritten(): void;
}

/** A transaction in progress; functions that must run inside one ask for this type. */
export interface Transaction extends Queryable {
  readonly transaction: true;
}

export interface Database extends Queryable {
  readonly url: string;
  readonly redact: LearningRedactor;
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Called after each commit that wrote evidence. */
  whenEvidence(listener: () => void): void;
  /** A connection of its own, for LISTEN or a session lock, with settings of its own; the caller ends it. */
  connect(applicationName: string, settings?: Record<string, string>): Promise<pg.Client>;
  close(): Promise<void>;
}

/** The database did not answer, or broke off: nothing is known to have changed, and repeating is safe. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

/** SQLSTATE classes that mean "the server is not there", not "the statement is wrong". */
const unavailableClasses = ['08', '53', '57', '58'];
const transientCodes = ['40001', '40P01'];
/** A table that a statement was planned for has other columns now, because another replica has migrated it; or a pooler has forgotten the statement. */
const isStalePlan = (error: unknown): boolean =>
  sqlState(error) === '26000' ||
  (sqlState(error) === '0A000' && error instanceof Error && /cached plan/.test(error.message));
const mostTries = 3;
/** A replica that freezes inside a transaction loses it, and its locks, before its lease ends and another one takes over. */
const idleTransactionMs = 8_000;
/** Signing in takes four round trips, so a line with 2 s of latency needs 8 s. Lost ones are dropped sooner by the watch. */
const connectTimeoutMs = 20_000;

const sqlState = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  sqlState(error) === '23505' &&
  (constraint === undefined || (error instanceof pg.DatabaseError && error.constraint === constraint));

/** Somebody else held a lock for longer than the statement was told to wait. */
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
  /** What this installation strikes out; by default what every one does. */
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
  // An idle connection that breaks (the server restarted) is replaced at the next use; without a listener it would end the process.
  // A connection can break between being handed out and being used; the statement then fails, and that is where it is told.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', (error) => {
    if (!pool.ending) options.on_idle_error?.(error);
  });

  let announce: () => void = () => {};
  const names = new Map<string, string>();
  let generation = 0;
  /** By its text, so that a pooler that hands connections on between processes never finds another statement under the name. */
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
      // Under new names they are planned anew, on every connection.
      if (isStalePlan(error)) {
        generation++;
        names.clear();
      }
      throw classify(error);
    }
  };

  const again = async <T>(work: () => Promise<T>, isWorthIt: (error: unknown) => boolean): Promise<T> => {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (tries >= mostTries || !isWorthIt(error)) throw error;
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
    // A connection that breaks between two statements says so here; without a listener it would end the process.
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
      // A failed rollback means the connection is gone, and with it the transaction.
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
    query: (text, values, how) => again(() => run(pool, text, values, how), isStalePlan),
    redact,
    evidenceWritten: () => announce(),
    whenEvidence(listener) {
      announce = listener;
    },
    transaction: (work) =>
      again(
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
      // One that breaks before its caller listens fails the caller's first statement; the event alone would end the process.
      client.on('error', () => {});
      await client.connect().catch((error) => {
        throw classify(error);
      });
      return client;
    },
    close: () => pool.end(),
  };
}

/** The one row a statement must give; anything else is a programmer's error. */
export function single<R>(rows: R[]): R {
  const [row] = rows;
  if (row === undefined || rows.length !== 1) throw new Error(`expected one row, got ${rows.length}`);
  return row;
}

export interface WriteAccount {
  charge(rows: number, bytes: number): void;
}
