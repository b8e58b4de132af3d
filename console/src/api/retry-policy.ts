/** Asks again what a server refused for the moment or did not answer, until it is answered or nobody looks at it any more. */
import type { Query } from '@tanstack/react-query';
import type { CancelTimer, Clock } from '../../../src/base/clock.ts';
import { retryAfterSeconds } from './failure.ts';

type AnyQuery = Query<unknown, unknown, unknown, readonly unknown[]>;

/** Told of every question that failed, whoever asked it, so that no page has to think of it. */
export function askingAgain(clock: Clock): (error: unknown, query: AnyQuery) => void {
  const waiting = new Map<string, CancelTimer>();
  return (error, query) => {
    // A change in the stream may have asked meanwhile: one question has one wait, or each would ask for ever.
    waiting.get(query.queryHash)?.();
    waiting.delete(query.queryHash);
    const seconds = retryAfterSeconds(error);
    if (seconds === null) return;
    const again = () => {
      waiting.delete(query.queryHash);
      // What nobody looks at is asked when somebody does.
      if (query.isActive() && query.state.status === 'error') query.fetch().catch(() => undefined);
    };
    waiting.set(query.queryHash, clock.after(seconds * 1000, again));
  };
}
