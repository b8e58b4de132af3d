/**
 * Tests whether the database can be used: whether it answers, and whether it takes writes. Anyone
 * may call `/readyz`, so all callers share one test of writes, and its result is reused.
 */
import { type Clock, pause } from '../base/clock.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { DatabaseState, ReadinessCheck } from '../contract/fleet/overview.ts';
import { toStoreFault } from '../store/pg/database.ts';
import type { OpenedStore } from './open-store.ts';

/** A database that takes longer counts as slow. It is away only if the watch gets no answer. */
const slowAfterMs = 2_000;
/** Anyone may call the check, so its log lines are rate-limited. */
const logEveryMs = 10_000;
const testWritesEveryMs = 2_000;
/** Longer than a login and a write over a link with 2 s of latency. */
const writeTimeoutMs = 10_000;

type Fault = Exclude<DatabaseState, 'ok' | 'slow'>;
const faultDetails: Record<Fault, string> = {
  unavailable: 'connection failed',
  read_only: 'the database accepts no writes: it is a standby, or read-only',
  disk_full: 'the disk of the database is full; new work is refused',
  commit_waits: `a commit did not return within ${writeTimeoutMs / 1000} s: a synchronous standby may be missing`,
};
const notReady = (state: Fault, detail = faultDetails[state]): ReadinessCheck => ({ ok: false, state, detail });
const toFault = (error: unknown): Fault => toStoreFault(error) ?? 'unavailable';

/** Calls `onBegin` when its transaction has begun. */
type WriteTest = (onBegin: () => void) => Promise<void>;

/** Starts a test of writes if the last one is old. A test that hangs is not repeated. */
function watchWrites(clock: Clock, testWrite: WriteTest, onFailure: (error: unknown) => void) {
  let startedMs = Number.NEGATIVE_INFINITY;
  /** When the transaction began. Before that, a wait for a pool connection is no waiting commit. */
  let begunMs: number | undefined;
  let running: Promise<void> | undefined;
  let fault: Fault | undefined;
  const start = () => {
    startedMs = clock.monotonicMs();
    begunMs = undefined;
    running = testWrite(() => {
      begunMs = clock.monotonicMs();
    })
      .then(
        () => {
          fault = undefined;
        },
        (error: unknown) => {
          onFailure(error);
          if (begunMs !== undefined || toStoreFault(error)) fault = toFault(error);
        },
      )
      .finally(() => {
        running = undefined;
      });
  };
  return {
    /** Starts a test if one is due. Resolves when no test is running. */
    async testIfDue(): Promise<void> {
      if (!running && clock.monotonicMs() - startedMs >= testWritesEveryMs) start();
      await running;
    },
    fault: (): Fault | undefined =>
      running && begunMs !== undefined && clock.monotonicMs() - begunMs >= writeTimeoutMs ? 'commit_waits' : fault,
  };
}

export interface StoreReadiness {
  check(): Promise<ReadinessCheck>;
  /** Whether the last test of writes failed because the disk is full. */
  isDiskFull(): boolean;
}

/** A replica is unready if its database is away or takes no writes, but not if it is slow. */
export function createReadinessCheck(
  { db, watch, clock, testWrite }: Pick<OpenedStore, 'db' | 'watch'> & { clock: Clock; testWrite: WriteTest },
  log: Pick<Log, 'warn'>,
): StoreReadiness {
  let loggedMs = Number.NEGATIVE_INFINITY;
  // The error names hosts and ports and the answer is public, so the error is only logged.
  const logFailure = (error: unknown) => {
    const nowMs = clock.monotonicMs();
    if (nowMs - loggedMs < logEveryMs) return;
    loggedMs = nowMs;
    log.warn({ error }, 'the readiness check could not use the database');
  };
  const writes = watchWrites(clock, testWrite, logFailure);
  const check = async (): Promise<ReadinessCheck> => {
    const stopWaiting = new AbortController();
    const answer = db.query('select 1').then(
      () => 'answered' as const,
      (error: unknown) => {
        logFailure(error);
        return 'failed' as const;
      },
    );
    const late = pause(clock, slowAfterMs, stopWaiting.signal).then(() => 'late' as const);
    const outcome = await Promise.race([answer, late]);
    if (outcome === 'answered') await Promise.race([writes.testIfDue(), late]);
    stopWaiting.abort();
    if (outcome === 'failed') return notReady('unavailable');
    if (outcome === 'late' && watch.isAway()) return notReady('unavailable', 'no answer');
    const fault = writes.fault();
    if (fault) return notReady(fault);
    if (outcome === 'answered') return { ok: true, state: 'ok', detail: null };
    return { ok: true, state: 'slow', detail: `no answer within ${slowAfterMs / 1000} s` };
  };
  return { check, isDiskFull: () => writes.fault() === 'disk_full' };
}
