/**
 * Retries a query that the server refused temporarily or did not answer, while a component uses the
 * query.
 */
import type { Query } from '@tanstack/react-query';
import type { CancelTimer, Clock } from '../../../src/base/clock.ts';
import { retryAfterSeconds } from './failure.ts';

type AnyQuery = Query<unknown, unknown, unknown, readonly unknown[]>;

/**
 * Returns a handler for every failed query, to be called by the query cache. No page has to handle
 * retries.
 */
export function retryFailedQueries(clock: Clock): (error: unknown, query: AnyQuery) => void {
  const timers = new Map<string, CancelTimer>();
  return (error, query) => {
    // The query may have been fetched again before its timer ran. Keep one timer per query.
    timers.get(query.queryHash)?.();
    timers.delete(query.queryHash);
    const seconds = retryAfterSeconds(error);
    if (seconds === null) return;
    const refetch = () => {
      timers.delete(query.queryHash);
      // An unused query is fetched when a component mounts it.
      if (query.isActive() && query.state.status === 'error') query.fetch().catch(() => undefined);
    };
    timers.set(query.queryHash, clock.after(seconds * 1000, refetch));
  };
}
