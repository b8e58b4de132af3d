/** Buffers heartbeats in memory, the latest per instance, and stores them every 200 ms. */
import { type Clock, moment, pause } from '../../base/clock.ts';
import type { Database } from '../pg/database.ts';
import { type Beat, type BeatRows, createBeatColumns, splitRows } from './heartbeat-columns.ts';
import { storeRows } from './store-heartbeats.ts';

export interface HeartbeatBuffer {
  add(beat: Beat): void;
  /** The number of heartbeats added since the start. */
  added(): number;
  flush(): Promise<void>;
  /** Backpressure for batches: if the store is behind, waits for a flush, but at most a second. */
  waitForRoom(): Promise<void>;
  /** How long the oldest heartbeat of the last successful flush had waited. */
  storedAfterMs(): number;
  /** Age of the oldest heartbeat that is not stored; 0 if all are. Grows while a flush hangs. */
  unstoredMs(): number;
  /** Every heartbeat received before this moment is stored. Never goes back. */
  flushedThrough(): Date;
  flushedThroughMs(): number;
  stop(): Promise<void>;
}

const flushEveryMs = 200;
/** Rows per statement. Small enough that the first rows of a large flush are stored early. */
const maxRows = 2_500;
/** Concurrent statements: one backend cannot use more than one core of the database. */
const maxStatements = 2;
/** Batches wait if the store is further behind than this, but no longer than `maxWaitMs`. */
const maxBehindMs = 300;
const maxWaitMs = 1_000;

/**
 * A heartbeat that a crash loses is repeated within seconds, so no flush waits for the disk. The
 * other settings make the planner look rows up by key. Without them, each flush would scan a fleet
 * of tens of thousands.
 */
const flushSettings = `
  select set_config(name, 'off', true)
  from unnest(array['synchronous_commit', 'enable_hashjoin', 'enable_mergejoin', 'enable_seqscan']) as name`;

export function createHeartbeatBuffer(db: Database, clock: Clock, onError: (error: unknown) => void): HeartbeatBuffer {
  const emptyColumns = () => ({
    assigned: createBeatColumns(true, db.redact),
    own: createBeatColumns(false, db.redact),
  });
  let waiting = emptyColumns();
  let isWriting = false;
  let isFailing = false;
  let added = 0;
  let storedAfterMs = 0;
  let flushedMs = clock.nowMs();
  let cancelTimer: (() => void) | undefined;
  let lastFlush: Promise<void> = Promise.resolve();
  let nextFlush: Promise<void> | undefined;

  const columnsFor = (hasAssigned: boolean) => (hasAssigned ? waiting.assigned : waiting.own);
  const hasWaiting = () => waiting.assigned.rows.ids.length + waiting.own.rows.ids.length > 0;

  const write = (rows: BeatRows) =>
    db.transaction(async (tx) => {
      await tx.query(flushSettings);
      await storeRows(tx, rows);
    });

  const flushNow = async () => {
    const startedMs = clock.nowMs();
    isWriting = hasWaiting();
    const chunks = [waiting.assigned, waiting.own].flatMap(({ rows }) => splitRows(rows, maxRows));
    waiting = emptyColumns();
    let stored = 0;
    try {
      // Oldest first. Each statement commits on its own, so its rows do not wait for the rest.
      for (; stored < chunks.length; stored += maxStatements)
        await Promise.all(chunks.slice(stored, stored + maxStatements).map(write));
      isFailing = false;
      if (chunks.length > 0) storedAfterMs = clock.nowMs() - Math.min(flushedMs, startedMs);
      flushedMs = startedMs;
    } catch (error) {
      for (const rows of chunks.slice(stored)) columnsFor(rows.has_assigned_interval).putBack(rows);
      isFailing = true;
      onError(error);
      schedule();
    } finally {
      isWriting = false;
    }
  };

  /** Callers share a flush that has not begun yet. */
  const flush = (): Promise<void> => {
    nextFlush ??= lastFlush.then(() => {
      nextFlush = undefined;
      return flushNow();
    });
    lastFlush = nextFlush;
    return nextFlush;
  };

  const schedule = () => {
    cancelTimer ??= clock.after(flushEveryMs, () => {
      cancelTimer = undefined;
      void flush();
    });
  };

  const isEmpty = () => !isWriting && !hasWaiting();
  const flushedThroughMs = () => (isEmpty() ? clock.nowMs() : flushedMs);
  const behindMs = () => (isEmpty() || isFailing ? 0 : clock.nowMs() - flushedMs);

  return {
    add(beat) {
      // Nothing waited until now, so everything before this heartbeat is stored.
      if (isEmpty()) flushedMs = clock.nowMs();
      columnsFor(beat.has_assigned_interval).add(beat);
      added++;
      schedule();
    },
    flush,
    async waitForRoom() {
      if (behindMs() <= maxBehindMs) return;
      const flushed = new AbortController();
      await Promise.race([flush(), pause(clock, maxWaitMs, flushed.signal)]);
      flushed.abort();
    },
    added: () => added,
    storedAfterMs: () => storedAfterMs,
    unstoredMs: () => Math.max(0, clock.nowMs() - flushedThroughMs()),
    flushedThrough: () => moment(flushedThroughMs()),
    flushedThroughMs,
    async stop() {
      cancelTimer?.();
      await lastFlush;
      await flushNow();
      cancelTimer?.();
    },
  };
}
