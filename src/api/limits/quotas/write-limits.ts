/**
 * Limits what callers cause the server to write: evidence, charged by `recordEvidence`, and other
 * rows. A caller without allowance, or with too many writes in progress, gets 429. Facts that no
 * caller waits for are dropped if there is no allowance for them.
 */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { type LimitSettings, maxWritesInProgress, rowOverheadBytes } from '../../../lifecycle/limits/limits.ts';
import { type Fact, recordEvidence } from '../../../store/evidence/evidence.ts';
import { type Database, type Transaction, withWriteAccount } from '../../../store/pg/database.ts';
import { createAccounts } from './accounts.ts';
import { createDropReports, type Losses } from './drop-reports.ts';
import type { Writer } from './writers.ts';

type Prepare = (tx: Transaction, facts: Fact[]) => Promise<void>;

export interface Amount {
  rows: number;
  bytes: number;
}

export interface WriteLimits {
  /** Seconds until the writer has allowance; 0 if it has some. */
  waitSeconds(writer: Writer): number;
  /**
   * Reserves the expected amount for a write that begins now. The caller must call the returned
   * function once the write was charged or has failed. Throws 429 for a writer without allowance or
   * with too many writes in progress.
   */
  reserve(writer: Writer, expected: Amount): () => void;
  /** Like `reserve`, but returns undefined instead of throwing. */
  tryReserve(writer: Writer, expected: Amount): (() => void) | undefined;
  /** Reserves the amount while `work` runs. Throws like `reserve`. */
  whileReserved<Result>(writer: Writer, expected: Amount, work: () => Promise<Result>): Promise<Result>;
  /**
   * Charges what is stored besides evidence: the rows of a request, and what its operation will
   * write.
   */
  charge(writer: Writer, rows: number, bytes: number): void;
  /** Returns a database that charges the evidence written through it to the writer. */
  database(db: Database, writer: Writer): Database;
  /**
   * Charges facts that no caller waits for, and returns true. Without allowance, counts them as
   * dropped and returns false.
   */
  tryCharge(writer: Writer, facts: readonly Fact[]): boolean;
  /**
   * Records facts that no caller waits for. Returns false if they were dropped. `prepare` fills
   * in missing ids in the same transaction.
   */
  record(writer: Writer, facts: Fact[], prepare?: Prepare): Promise<boolean>;
  /** Call when the machine goes to another tenant, who must not pay for earlier writes. */
  resetInstance(id: NodeInstanceId): void;
  /** Counts a deferred status report. A newer one may replace it. */
  countDeferred(writer: Writer): void;
  figures(): WriteLimitFigures;
  stop(): Promise<void>;
}

export interface WriteLimitFigures {
  accounts: number;
  losses: ReadonlyMap<Writer['kind'], Losses>;
}

/** Limits the advertised wait. A caller that retries too early is only refused again. */
const maxRetrySeconds = 60;
/** A write in progress usually ends within this time. */
const busyRetrySeconds = 1;

export function createWriteLimits(options: {
  db: Database;
  clock: Clock;
  limits: LimitSettings;
  onError: (error: unknown) => void;
}): WriteLimits {
  const { db, clock, limits } = options;
  const accounts = createAccounts(clock);
  const dropReports = createDropReports({ ...options, window_seconds: limits.window_seconds });
  const everybody = { kind: 'everybody', key: '' } as const;
  const accountsOf = (writer: Writer) =>
    [...writer.allowances, everybody].map(({ kind, key }) => ({ key: `${kind} ${key}`, quota: limits[kind] }));

  const charge = (writer: Writer, rows: number, bytes: number) => {
    for (const { key, quota } of accountsOf(writer)) accounts.charge(key, quota, rows, bytes + rows * rowOverheadBytes);
  };
  const waitSeconds = (writer: Writer) =>
    Math.max(...accountsOf(writer).map(({ key, quota }) => accounts.waitSeconds(key, quota)));
  const isBusy = (writer: Writer) =>
    writer.allowances.some(
      ({ kind, key }) => accounts.inProgress(`${kind} ${key}`) >= (maxWritesInProgress[kind] ?? Infinity),
    );
  const reserveNow = (writer: Writer, { rows, bytes }: Amount) => {
    // Do not reserve from `everybody`: requests whose bodies never arrive could hold all of it.
    const ownAccounts = writer.allowances.map(({ kind, key }) => ({ key: `${kind} ${key}`, quota: limits[kind] }));
    const withOverhead = bytes + rows * rowOverheadBytes;
    for (const { key, quota } of ownAccounts) accounts.reserve(key, quota, rows, withOverhead);
    let isReserved = true;
    return () => {
      if (isReserved) for (const { key } of ownAccounts) accounts.release(key, rows, withOverhead);
      isReserved = false;
    };
  };
  const reserve = (writer: Writer, expected: Amount) => {
    const seconds = isBusy(writer) ? busyRetrySeconds : waitSeconds(writer);
    if (seconds === 0) return reserveNow(writer, expected);
    dropReports.count(writer, 'requests_refused');
    throw new ApiProblem('write_limit_reached', {
      retry_after_seconds: Math.ceil(Math.min(seconds, maxRetrySeconds)),
    });
  };
  const database = (base: Database, writer: Writer) =>
    withWriteAccount(base, { charge: (rows, bytes) => charge(writer, rows, bytes) });

  const tryCharge = (writer: Writer, facts: readonly Fact[]) => {
    const isAllowed = waitSeconds(writer) === 0;
    if (isAllowed) charge(writer, facts.length, Buffer.byteLength(JSON.stringify(facts)));
    else dropReports.count(writer, 'facts_dropped', facts.length);
    return isAllowed;
  };

  return {
    waitSeconds,
    charge,
    tryCharge,
    database,
    reserve,
    tryReserve: (writer, expected) =>
      isBusy(writer) || waitSeconds(writer) > 0 ? undefined : reserveNow(writer, expected),
    async whileReserved(writer, expected, work) {
      const release = reserve(writer, expected);
      try {
        return await work();
      } finally {
        release();
      }
    },
    async record(writer, facts, prepare) {
      if (!tryCharge(writer, facts)) return false;
      await db.transaction(async (tx) => {
        await prepare?.(tx, facts);
        await recordEvidence(tx, facts);
      });
      return true;
    },
    resetInstance: (id) => accounts.reset(`instance ${id}`, limits.instance),
    countDeferred: (writer) => dropReports.count(writer, 'reports_coalesced'),
    figures: () => ({ accounts: accounts.size(), losses: dropReports.totals() }),
    stop: () => dropReports.stop(),
  };
}
