/** Heartbeats cost no synchronous write: they are coalesced per instance and flushed a few times a second. */
import { type Clock, moment, pause } from '../../base/clock.ts';
import type { Database } from '../pg/database.ts';
import { type Beat, type BeatRows, beatColumns, piecesOf } from './heartbeat-columns.ts';
import { storeRows } from './store-heartbeats.ts';

export interface HeartbeatBuffer {
  add(beat: Beat): void;
  /** How many were added since the start. */
  added(): number;
  flush(): Promise<void>;
  /** For whoever brings many at once: resolves when there is room for more, or after a moment where nothing can be stored. */
  waitForRoom(): Promise<void>;
  /** For how long the oldest beat of the last flush had waited when it was stored. A store that is away stores nothing, late or not. */
  storedAfterMs(): number;
  /** Every beat received before this moment is in the table. */
  flushedThrough(): Date;
  flushedThroughMs(): number;
  stop(): Promise<void>;
}

const flushEveryMs = 200;
/** Of one statement: the first of many beats need not wait for the last. */
const rowsAtOnce = 2_500;
/** So many statements at a time: the database has more than one processor, and a flood of beats keeps one busy all the time. */
const statementsAtOnce = 2;
/** So far behind, whoever brings many beats at once waits until they are stored: it brings no more meanwhile. */
const patienceMs = 300;
const mostWaitMs = 1_000;

/**
 * A beat lost in a crash is told again in seconds; waiting for the disk would only make every beat dearer. And each row is looked up by
 * its key: to the planner it seems better to read a fleet of tens of thousands whole for every flush, which costs several times as much.
 */
const asBeats = `select set_config(name, 'off', true) from unnest(array['synchronous_commit', 'enable_hashjoin', 'enable_mergejoin', 'enable_seqscan']) as name`;

export function createHeartbeatBuffer(db: Database, clock: Clock, onError: (error: unknown) => void): HeartbeatBuffer {
  const nothing = () => ({ assigned: beatColumns(true, db.redact), own: beatColumns(false, db.redact) });
  let waiting = nothing();
  let writing = false;
  let failing = false;
  let added = 0;
  let storedAfterMs = 0;
  let flushedMs = clock.nowMs();
  let cancelTimer: (() => void) | undefined;
  let running: Promise<void> = Promise.resolve();
  let queued: Promise<void> | undefined;

  const columnsFor = (hasAssigned: boolean) => (hasAssigned ? waiting.assigned : waiting.own);
  const areWaiting = () => waiting.assigned.rows.ids.length + waiting.own.rows.ids.length > 0;

  const write = (rows: BeatRows) =>
    db.transaction(async (tx) => {
      await tx.query(asBeats);
      await storeRows(tx, rows);
    });

  const flushNow = async () => {
    const startedMs = clock.nowMs();
    writing = areWaiting();
    const pieces = [waiting.assigned, waiting.own].flatMap(({ rows }) => piecesOf(rows, rowsAtOnce));
    waiting = nothing();
    let stored = 0;
    try {
      // The oldest first, and each statement's beats are there when it ends, however many are behind it.
      for (; stored < pieces.length; stored += statementsAtOnce)
        await Promise.all(pieces.slice(stored, stored + statementsAtOnce).map(write));
      failing = false;
      if (pieces.length > 0) storedAfterMs = clock.nowMs() - Math.min(flushedMs, startedMs);
      flushedMs = startedMs;
    } catch (error) {
      for (const rows of pieces.slice(stored)) columnsFor(rows.has_assigned_interval).putBack(rows);
      failing = true;
      onError(error);
      schedule();
    } finally {
      writing = false;
    }
  };

  /** One that has not begun yet takes along whatever there is by then. */
  const flush = (): Promise<void> => {
    queued ??= running.then(() => {
      queued = undefined;
      return flushNow();
    });
    running = queued;
    return queued;
  };

  const schedule = () => {
    cancelTimer ??= clock.after(flushEveryMs, () => {
      cancelTimer = undefined;
      void flush();
    });
  };

  const isEmpty = () => !writing && !areWaiting();
  const flushedThroughMs = () => (isEmpty() ? clock.nowMs() : flushedMs);
  const behindMs = () => (isEmpty() || failing ? 0 : clock.nowMs() - flushedMs);

  return {
    add(beat) {
      // Until now nothing waited, so everything before this beat is stored: what we say of our hearing never goes back.
      if (isEmpty()) flushedMs = clock.nowMs();
      columnsFor(beat.has_assigned_interval).add(beat);
      added++;
      schedule();
    },
    flush,
    async waitForRoom() {
      if (behindMs() <= patienceMs) return;
      const enough = new AbortController();
      await Promise.race([flush(), pause(clock, mostWaitMs, enough.signal)]);
      enough.abort();
    },
    added: () => added,
    storedAfterMs: () => storedAfterMs,
    flushedThrough: () => moment(flushedThroughMs()),
    flushedThroughMs,
    async stop() {
      cancelTimer?.();
      await running;
      await flushNow();
      cancelTimer?.();
    },
  };
}
