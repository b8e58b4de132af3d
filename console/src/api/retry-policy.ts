/**
 * Retries a query that the server refused temporarily or did not answer, as long as a component
 * uses the query.
 */
import type { Query } from '@tanstack/react-query';
import type { CancelTimer, Clock } from '../../../src/base/clock.ts';
import { retryAfterSeconds } from './failure.ts';

type AnyQuery = Query<unknown, unknown, unknown, readonly unknown[]>;

/**
 * Returns a function that the query cache calls for every failed query, so that no page has to
 * handle retries.
 */
export function retryFailedQueries(clock: Clock): (error: unknown, query: AnyQuery) => void {
  const timers = new Map<string, CancelTimer>();
  return (error, query) => {
    // The query may have failed again before its timer fired. Keep one timer per query.
    timers.get(query.queryHash)?.();
    timers.delete(query.queryHash);
    const seconds = retryAfterSeconds(error);
    if (seconds === null) return;
    const refetch = () => {
      timers.delete(query.queryHash);
      // A query without a component is fetched when a component that uses it mounts.
      if (query.isActive() && query.state.status === 'error') query.fetch().catch(() => undefined);
    };
    timers.set(query.queryHash, clock.after(seconds * 1000, refetch));
  };
}
