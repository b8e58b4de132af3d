/**
 * The evidence tail is the one reader of a replica that passes every new fact, in commit order, to
 * subscribers in memory. Commits in this process and NOTIFY from other replicas wake the tail.
 * Streams, long polls, caches and waiting operations subscribe instead of polling the database.
 */
import { type Clock, moment } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isOwnFact } from '../../contract/evidence/evidence-kinds.ts';
import type { Database } from '../pg/database.ts';
import { type Cursor, checkHistory, formatCursor, parseCursor, startCursor } from './commit-order.ts';
import { readAfter, type TimeRange } from './evidence.ts';

export interface EvidenceTail {
  /**
   * Calls the listener for each new fact that the server itself recorded. Returns a function that
   * ends the subscription.
   */
  subscribe(listener: (fact: Evidence) => void): () => void;
  /**
   * Calls the listener also for facts from outside the server. Only for streams that people read:
   * code must not act on such facts.
   */
  subscribeAll(listener: (fact: Evidence) => void): () => void;
  /**
   * Call this after this process committed evidence. Reads now, and soon notifies other replicas.
   */
  nudge(): void;
  /** Reads now, because there may be new facts. */
  poke(): void;
  position(): string;
  /**
   * How long ago this replica last had every committed fact; about a second at most if all is well.
   */
  lagMs(): number;
  /**
   * Calls the listener after a failover or a restore while this replica ran. If facts were lost,
   * rows that were read before may be outdated.
   */
  whenHistoryChanged(listener: (change: HistoryChange) => void): void;
  /**
   * Resolves when the database is in an earlier era or in another cluster than before. New facts
   * would sort before old ones, and only a start begins an era.
   */
  lost: Promise<Error>;
  stop(): Promise<void>;
}

export interface HistoryChange {
  /** The last fact that this replica had read. */
  last_read: string;
  /** The fact after which this replica continues. */
  continues_after: string;
  /** Whether the database no longer has one of the facts that were read last. */
  lost: boolean;
}

const channel = 'slipway_wake';
const batchSize = 500;
/** Must exceed the facts of overlapping transactions, which may commit in any order. */
const recentFacts = 500;
/** Retention drops no fact that was read within this time. */
const recentMs = 24 * 3600_000;
const pollMs = 1_000;
/** One notification serves all commits within this time. */
const notifyAfterMs = 20;
/**
 * Facts are recorded within seconds of their `at`. These bounds are far wider, but still exclude
 * most partitions from a read.
 */
const maxLateMs = 30 * 24 * 3600_000;
const maxAheadMs = 24 * 3600_000;
/**
 * A fact is withheld while an older transaction runs, and PostgreSQL does not announce when that
 * ends. The delay between retries doubles, so that a long transaction costs a few queries, not
 * hundreds.
 */
const withheldRetryMs = { first: 5, max: 80 };

/**
 * Forces one generic plan that uses the index. Otherwise PostgreSQL would plan again for every
 * cursor, and would keep sequential scans for partitions that were small when it planned.
 */
const plannerSettings = {
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
  const historyListeners: ((change: HistoryChange) => void)[] = [];
  let { cursor, era, cluster } = await checkHistory(db, []);
  const { promise: databaseLost, resolve: resolveLost } = Promise.withResolvers<Error>();
  /** The last facts that were read, to check whether they still exist after a reconnect. */
  let recent: { fact: Cursor; readMs: number }[] = [];
  const withReadTime = (fact: Cursor) => ({ fact, readMs: clock.monotonicMs() });
  if (cursor !== startCursor) recent.push(withReadTime(cursor));
  /** Set when a connection begins or ends: the next statement may reach another primary. */
  let isHistoryUnchecked = false;
  let lastFactMs: number | undefined;
  /** The start of the last read in which no fact was withheld. */
  let completeMs = clock.monotonicMs();
  let reading: Promise<void> | undefined;
  let readAgain = false;
  let stopped = false;
  let cancelPoll: () => void = () => {};
  let cancelRetry: (() => void) | undefined;
  let retryMs = withheldRetryMs.first;
  let cancelNotify: (() => void) | undefined;
  let connection: Awaited<ReturnType<Database['connect']>> | undefined;
  let connecting = false;

  /** Reads on the tail's own connection with a prepared query, or on the pool if that is lost. */
  const reader = (): Pick<Database, 'query'> => {
    const client = connection;
    if (!client) return db;
    return {
      query: async (text, values = [], { prepared = false } = {}) =>
        (await client.query({ ...(prepared && { name: `tail_of_${values.length}` }), text, values })).rows,
    };
  };

  /** A listener that throws does not affect the others. */
  const deliver = <Message>(message: Message, listener: (message: Message) => void) => {
    try {
      listener(message);
    } catch (error) {
      onError(error);
    }
  };

  /** Covers both the last fact and the present, because the clock may have been set in between. */
  const computeRange = (): TimeRange | undefined =>
    lastFactMs === undefined
      ? undefined
      : {
          since: moment(Math.min(lastFactMs, clock.nowMs()) - maxLateMs),
          until: moment(Math.max(lastFactMs, clock.nowMs()) + maxAheadMs),
        };

  const verifyHistory = async () => {
    recent = recent.filter(({ readMs }) => clock.monotonicMs() - readMs < recentMs);
    const known = recent.map(({ fact }) => fact);
    const history = await checkHistory(reader(), known);
    const isOtherCluster = cluster !== null && history.cluster !== null && history.cluster !== cluster;
    if (history.era < era || isOtherCluster) {
      const error = new Error('the database was restored or replaced while this server ran: a new start is needed');
      resolveLost(error);
      // `isHistoryUnchecked` stays true, so no fact is read until that start.
      throw error;
    }
    isHistoryUnchecked = false;
    cluster ??= history.cluster;
    const { lost } = history;
    if (!lost && history.era === era) return;
    const last_read = formatCursor(cursor);
    ({ era } = history);
    if (lost) {
      ({ cursor } = history);
      recent = cursor === startCursor ? [] : [withReadTime(cursor)];
    }
    const change = { last_read, continues_after: formatCursor(cursor), lost };
    lastFactMs = undefined;
    for (const listener of historyListeners) deliver(change, listener);
  };

  const readAll = async () => {
    do {
      readAgain = false;
      const startedMs = clock.monotonicMs();
      if (isHistoryUnchecked) await verifyHistory();
      const { items, withheld } = await readAfter(reader(), cursor, batchSize, computeRange());
      for (const fact of items) {
        lastFactMs = Date.parse(fact.at);
        cursor = parseCursor(fact.cursor) ?? cursor;
        recent.push(withReadTime(cursor));
        for (const listener of allListeners) deliver(fact, listener);
        if (isOwnFact(fact)) for (const listener of listeners) deliver(fact, listener);
      }
      if (recent.length > 2 * recentFacts) recent = recent.slice(-recentFacts);
      if (items.length > 0 || !withheld) retryMs = withheldRetryMs.first;
      if (items.length === batchSize) readAgain = true;
      else if (!withheld) completeMs = startedMs;
      else if (!stopped) retryLater();
    } while (readAgain && !stopped);
  };

  const retryLater = () => {
    cancelRetry ??= clock.after(retryMs, () => {
      cancelRetry = undefined;
      retryMs = Math.min(2 * retryMs, withheldRetryMs.max);
      poke();
    });
  };

  const poke = () => {
    if (stopped) return;
    if (reading) {
      readAgain = true;
      return;
    }
    reading = readAll()
      .catch(onError)
      .finally(() => {
        reading = undefined;
        if (readAgain) poke();
      });
  };

  const tick = () => {
    if (stopped) return;
    poke();
    if (!connection && !connecting) void listen();
    cancelPoll = clock.after(pollMs, tick);
  };

  /**
   * Opens the LISTEN connection. Its loss is not fatal: without it facts of other replicas arrive
   * up to a second later.
   */
  const listen = async () => {
    connecting = true;
    try {
      const client = await db.connect('slipway tail', plannerSettings);
      connection = client;
      isHistoryUnchecked = true;
      client.on('notification', poke);
      client.on('error', onError);
      client.on('end', () => {
        isHistoryUnchecked = true;
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
    lagMs: () => clock.monotonicMs() - completeMs,
    whenHistoryChanged(listener) {
      historyListeners.push(listener);
    },
    lost: databaseLost,
    async stop() {
      stopped = true;
      cancelPoll();
      cancelRetry?.();
      cancelNotify?.();
      await reading;
      const client = connection;
      connection = undefined;
      await client?.end();
    },
  };
}
