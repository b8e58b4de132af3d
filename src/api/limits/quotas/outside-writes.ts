/**
 * Limits the evidence that callers cause. All of it is charged where evidence is written
 * (`recordEvidence`). A caller without allowance gets 429; facts that no caller waits for are
 * dropped.
 */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { type LimitSettings, maxWritesInProgress, rowOverheadBytes } from '../../../lifecycle/limits/limits.ts';
import { type Fact, recordEvidence } from '../../../store/evidence/evidence.ts';
import { chargedTo, type Database, type Transaction } from '../../../store/pg/database.ts';
import { createAccounts } from './accounts.ts';
import { createDropReports, type Losses } from './drop-reports.ts';
import type { Writer } from './writers.ts';

type Prepare = (tx: Transaction, facts: Fact[]) => Promise<void>;

export interface Amount {
  rows: number;
  bytes: number;
}

export interface OutsideWrites {
  /** Seconds until the writer has allowance; 0: it has some. */
  waitSeconds(writer: Writer): number;
  /**
   * Reserves the expected amount for a write that begins now; the caller releases it once the write
   * was charged or has failed. Throws 429 for a writer without allowance, or with too many writes
   * in progress.
   */
  reserve(writer: Writer, expected: Amount): () => void;
  /** As `reserve`, but returns undefined instead of throwing. */
  tryReserve(writer: Writer, expected: Amount): (() => void) | undefined;
  /** Reserves while `work` runs; throws as `reserve` does. */
  whileReserved<Result>(writer: Writer, expected: Amount, work: () => Promise<Result>): Promise<Result>;
  /**
   * Charges what is stored besides evidence: a request's own rows, and later writes of its
   * operation.
   */
  charge(writer: Writer, rows: number, bytes: number): void;
  /** Charges evidence written through this database to the writer. */
  database(db: Database, writer: Writer): Database;
  /**
   * Whether facts that no caller waits for may be recorded. Charges them, or counts them as
   * dropped.
   */
  allows(writer: Writer, facts: readonly Fact[]): boolean;
  /**
   * Records facts that no caller waits for; false if they were dropped. `prepare` completes them in
   * the same transaction.
   */
  record(writer: Writer, facts: Fact[], prepare?: Prepare): Promise<boolean>;
  /** Call when the machine goes to another tenant, who must not pay for earlier writes. */
  resetInstance(id: NodeInstanceId): void;
  /** Counts a status report that was deferred, since a newer one may replace it. */
  countCoalesced(writer: Writer): void;
  figures(): OutsideFigures;
  stop(): Promise<void>;
}

export interface OutsideFigures {
  accounts: number;
  losses: ReadonlyMap<Writer['kind'], Losses>;
}

/** A caller that retries too early is refused again; none should wait for an hour. */
const maxRetrySeconds = 60;
/** Until one of its writes in progress ends. */
const busyRetrySeconds = 1;

export function createOutsideWrites(options: {
  db: Database;
  clock: Clock;
  limits: LimitSettings;
  onError: (error: unknown) => void;
}): OutsideWrites {
  const { db, clock, limits } = options;
  const accounts = createAccounts(clock);
  const reports = createDropReports({ ...options, window_seconds: limits.window_seconds });
  const everybody = { kind: 'everybody', key: '' } as const;
  const drawsOf = (writer: Writer) =>
    [...writer.draws, everybody].map(({ kind, key }) => ({ key: `${kind} ${key}`, quota: limits[kind] }));

  const charge = (writer: Writer, rows: number, bytes: number) => {
    for (const { key, quota } of drawsOf(writer)) accounts.charge(key, quota, rows, bytes + rows * rowOverheadBytes);
  };
  const waitSeconds = (writer: Writer) =>
    Math.max(...drawsOf(writer).map(({ key, quota }) => accounts.waitSeconds(key, quota)));
  const isBusy = (writer: Writer) =>
    writer.draws.some(
      ({ kind, key }) => accounts.inProgress(`${kind} ${key}`) >= (maxWritesInProgress[kind] ?? Infinity),
    );
  const hold = (writer: Writer, { rows, bytes }: Amount) => {
    // Do not reserve from `everybody`: requests whose bodies never arrive could hold all of it.
    const draws = writer.draws.map(({ kind, key }) => ({ key: `${kind} ${key}`, quota: limits[kind] }));
    const withOverhead = bytes + rows * rowOverheadBytes;
    for (const { key, quota } of draws) accounts.reserve(key, quota, rows, withOverhead);
    let held = true;
    return () => {
      if (held) for (const { key } of draws) accounts.release(key, rows, withOverhead);
      held = false;
    };
  };
  const reserve = (writer: Writer, expected: Amount) => {
    const seconds = isBusy(writer) ? busyRetrySeconds : waitSeconds(writer);
    if (seconds === 0) return hold(writer, expected);
    reports.count(writer, 'requests_refused');
    throw new ApiProblem('write_limit_reached', {
      retry_after_seconds: Math.ceil(Math.min(seconds, maxRetrySeconds)),
    });
  };
  const database = (of: Database, writer: Writer) =>
    chargedTo(of, { charge: (rows, bytes) => charge(writer, rows, bytes) });

  const allows = (writer: Writer, facts: readonly Fact[]) => {
    const allowed = waitSeconds(writer) === 0;
    if (allowed) charge(writer, facts.length, Buffer.byteLength(JSON.stringify(facts)));
    else reports.count(writer, 'facts_dropped', facts.length);
    return allowed;
  };

  return {
    waitSeconds,
    charge,
    allows,
    database,
    reserve,
    tryReserve: (writer, expected) => (isBusy(writer) || waitSeconds(writer) > 0 ? undefined : hold(writer, expected)),
    async whileReserved(writer, expected, work) {
      const release = reserve(writer, expected);
      try {
        return await work();
      } finally {
        release();
      }
    },
    async record(writer, facts, prepare) {
      if (!allows(writer, facts)) return false;
      await db.transaction(async (tx) => {
        await prepare?.(tx, facts);
        await recordEvidence(tx, facts);
      });
      return true;
    },
    resetInstance: (id) => accounts.reset(`instance ${id}`, limits.instance),
    countCoalesced: (writer) => reports.count(writer, 'reports_coalesced'),
    figures: () => ({ accounts: accounts.size(), losses: reports.totals() }),
    stop: () => reports.stop(),
  };
}
