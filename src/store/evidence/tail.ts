/**
 * The tail of the evidence: one reader per replica, woken by commits here and by NOTIFY from other replicas, that hands
 * every new fact, in commit order, to whoever subscribed in memory. Streams, long polls, caches and waiting operations all
 * hang on it, so that none of them queries on its own.
 */
import { type Clock, moment } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isOwnFact } from '../../contract/evidence/evidence-kinds.ts';
import type { Database } from '../pg/database.ts';
import { type Cursor, formatCursor, headCursor, parseCursor, readAfter, type Within } from './evidence.ts';

export interface EvidenceTail {
  /** Called for each fact that the server recorded itself, after the moment of subscription. Returns the way to end it. */
  subscribe(listener: (fact: Evidence) => void): () => void;
  /** The same with facts from outside, for streams that show them to people. Nothing may act on these. */
  subscribeAll(listener: (fact: Evidence) => void): () => void;
  /** Something was committed here: read now, and tell the other replicas soon. */
  nudge(): void;
  /** Something may be there: read now. */
  poke(): void;
  position(): string;
  stop(): Promise<void>;
}

const channel = 'slipway_wake';
const batchSize = 500;
const fallbackMs = 1_000;
const notifyAfterMs = 20;
/** A fact is told within moments of its time. This is far beyond that, and still leaves most pieces of the evidence alone. */
const mostLateMs = 30 * 24 * 3600_000;
const mostAheadMs = 24 * 3600_000;
/**
 * A row can be hidden for the moment behind another transaction that is about to end; nobody announces that end. What has
 * waited is asked for again after as long as it has waited, so that a long transaction costs a few questions, not hundreds.
 */
const withheldRetryMs = { first: 5, most: 80 };

/**
 * Left to itself the database would plan for each new cursor, since it takes the guess at an unknown one for worse; and would
 * read pieces whole that were small when it planned. In the order of the index is right however large they become.
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

  /** On its own connection, where the one question it has is planned once; where that was lost, on any. */
  const reader = (): Pick<Database, 'query'> => {
    const client = connection;
    if (!client) return db;
    return {
      query: async (text, values = []) => (await client.query({ name: `tail_of_${values.length}`, text, values })).rows,
    };
  };

  /** One listener that fails takes nothing from the others. */
  const hand = (fact: Evidence, listener: (fact: Evidence) => void) => {
    try {
      listener(fact);
    } catch (error) {
      onError(error);
    }
  };

  /** A clock that is set moves what is to come, not what was reached; so both count. */
  const within = (): Within | undefined =>
    reachedMs === undefined
      ? undefined
      : {
          since: moment(Math.min(reachedMs, clock.nowMs()) - mostLateMs),
          until: moment(Math.max(reachedMs, clock.nowMs()) + mostAheadMs),
        };

  const readAll = async () => {
    do {
      again = false;
      const { items, withheld } = await readAfter(reader(), cursor, batchSize, within());
      for (const fact of items) {
        reachedMs = Date.parse(fact.at);
        cursor = parseCursor(fact.cursor) ?? cursor;
        for (const listener of allListeners) hand(fact, listener);
        if (isOwnFact(fact)) for (const listener of listeners) hand(fact, listener);
      }
      if (items.length > 0 || !withheld) retryMs = withheldRetryMs.first;
      if (items.length === batchSize) again = true;
      else if (withheld && !stopped) retry();
    } while (again && !stopped);
  };

  const retry = () => {
    cancelRetry ??= clock.after(retryMs, () => {
      cancelRetry = undefined;
      retryMs = Math.min(2 * retryMs, withheldRetryMs.most);
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

  /** Without the LISTEN connection everything still works, only up to a second later; so its loss is reported and mended, not fatal. */
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
