/**
 * The evidence tail: one reader per replica that passes every new fact, in commit order, to its
 * subscribers in memory. Commits in this process and NOTIFY from other replicas wake it. Streams,
 * long polls, caches and waiting operations subscribe instead of polling the database.
 */
import { type Clock, moment } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isOwnFact } from '../../contract/evidence/evidence-kinds.ts';
import type { Database } from '../pg/database.ts';
import { type Cursor, formatCursor, headCursor, parseCursor, readAfter, type TimeRange } from './evidence.ts';

export interface EvidenceTail {
  /**
   * Calls back for each new fact that the server recorded itself. Returns a function that ends it.
   */
  subscribe(listener: (fact: Evidence) => void): () => void;
  /** Includes facts from outside, for streams that people read. Code must not act on those. */
  subscribeAll(listener: (fact: Evidence) => void): () => void;
  /** This process committed evidence: read now, and notify the other replicas soon. */
  nudge(): void;
  /** There may be new facts: read now. */
  poke(): void;
  position(): string;
  stop(): Promise<void>;
}

const channel = 'slipway_wake';
const batchSize = 500;
const fallbackMs = 1_000;
const notifyAfterMs = 20;
/**
 * Facts are recorded within seconds of their time. These bounds are far wider, and still exclude
 * most partitions.
 */
const maxLateMs = 30 * 24 * 3600_000;
const maxAheadMs = 24 * 3600_000;
/**
 * An older open transaction can withhold a fact for a moment, and its end is not announced. The
 * retry delay doubles, so that a long transaction costs a few queries, not hundreds.
 */
const withheldRetryMs = { first: 5, max: 80 };

/**
 * Forces one generic plan that follows the index. PostgreSQL would otherwise plan for every new
 * cursor, and would choose sequential scans for partitions that were small when it planned.
 */
const planning = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_sort: 'off',
};

export async function startTail(options: {
  db: Database;
  clock: Clock;
  onError: (error: unknown) => void;
}): Promise<EvidenceTail> {
  const { db, clock, onError } = options;
  const listeners = new Set<(fact: Evidence) => void>();
  const allListeners = new Set<(fact: Evidence) => void>();
  let cursor: Cursor = await headCursor(db);
  let reachedMs: number | undefined;
  let reading: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  let cancelFallback: () => void = () => {};
  let cancelRetry: (() => void) | undefined;
  let retryMs = withheldRetryMs.first;
  let cancelNotify: (() => void) | undefined;
  let connection: Awaited<ReturnType<Database['connect']>> | undefined;
  let connecting = false;

  /** Its own connection, on which its query is prepared; the pool while that is lost. */
  const reader = (): Pick<Database, 'query'> => {
    const client = connection;
    if (!client) return db;
    return {
      query: async (text, values = []) => (await client.query({ name: `tail_of_${values.length}`, text, values })).rows,
    };
  };

  /** A listener that throws does not affect the others. */
  const deliver = (fact: Evidence, listener: (fact: Evidence) => void) => {
    try {
      listener(fact);
    } catch (error) {
      onError(error);
    }
  };

  /** The range spans the last fact and the present: the clock may have been set in between. */
  const range = (): TimeRange | undefined =>
    reachedMs === undefined
      ? undefined
      : {
          since: moment(Math.min(reachedMs, clock.nowMs()) - maxLateMs),
          until: moment(Math.max(reachedMs, clock.nowMs()) + maxAheadMs),
        };

  const readAll = async () => {
    do {
      again = false;
      const { items, withheld } = await readAfter(reader(), cursor, batchSize, range());
      for (const fact of items) {
        reachedMs = Date.parse(fact.at);
        cursor = parseCursor(fact.cursor) ?? cursor;
        for (const listener of allListeners) deliver(fact, listener);
        if (isOwnFact(fact)) for (const listener of listeners) deliver(fact, listener);
      }
      if (items.length > 0 || !withheld) retryMs = withheldRetryMs.first;
      if (items.length === batchSize) again = true;
      else if (withheld && !stopped) retry();
    } while (again && !stopped);
  };

  const retry = () => {
    cancelRetry ??= clock.after(retryMs, () => {
      cancelRetry = undefined;
      retryMs = Math.min(2 * retryMs, withheldRetryMs.max);
      poke();
    });
  };

  const poke = () => {
    if (stopped) return;
    if (reading) {
      again = true;
      return;
    }
    reading = readAll()
      .catch(onError)
      .finally(() => {
        reading = undefined;
        if (again) poke();
      });
  };

  const tick = () => {
    if (stopped) return;
    poke();
    if (!connection && !connecting) void listen();
    cancelFallback = clock.after(fallbackMs, tick);
  };

  /** Without the LISTEN connection facts arrive up to a second later, so its loss is not fatal. */
  const listen = async () => {
    connecting = true;
    try {
      const client = await db.connect('slipway tail', planning);
      connection = client;
      client.on('notification', poke);
      client.on('error', onError);
      client.on('end', () => {
        if (connection === client) connection = undefined;
      });
      await client.query(`listen ${channel}`);
      if (stopped) await client.end();
    } catch (error) {
      connection = undefined;
      onError(error);
    } finally {
      connecting = false;
    }
  };

  await listen();
  tick();

  return {
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    subscribeAll(listener) {
      allListeners.add(listener);
      return () => allListeners.delete(listener);
    },
    poke,
    nudge() {
      poke();
      cancelNotify ??= clock.after(notifyAfterMs, () => {
        cancelNotify = undefined;
        if (!stopped) db.query(`notify ${channel}`).catch(onError);
      });
    },
    position: () => formatCursor(cursor),
    async stop() {
      stopped = true;
      cancelFallback();
      cancelRetry?.();
      cancelNotify?.();
      await reading;
      const client = connection;
      connection = undefined;
      await client?.end();
    },
  };
}
