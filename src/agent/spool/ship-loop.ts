/**
 * Ships pending items when woken, and retries with growing pauses. Used for logs, boot stages and
 * facts.
 */

import { backoff, type Span } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { waker } from '../life/waker.ts';

/** `empty`: wait for a wake. `more`: call again at once. A failure: retry later. */
export type Shipped = 'empty' | 'more' | CallFailure;

export interface ShipLoop {
  wake(): void;
  /** True once nothing is pending; false if the signal aborts before. */
  emptied(until: AbortSignal): Promise<boolean>;
  done: Promise<void>;
}

export interface ShipLoopParts {
  clock: Clock;
  signal: AbortSignal;
  ship(): Promise<Shipped>;
  /** Items that come within this time after a wake are sent together. */
  batch_ms: number;
  retry: Span;
}

export function shipLoop({ clock, signal, ship, batch_ms, retry }: ShipLoopParts): ShipLoop {
  const rest = waker(clock, signal);
  // A wake must not cut a retry pause short: a chatty command would turn it into a busy loop.
  const retryRest = waker(clock, signal);
  const pauses = backoff(retry);
  const waiting = new Set<() => void>();
  const run = async () => {
    while (!signal.aborted) {
      const shipped = await ship();
      if (typeof shipped === 'object') {
        await retryRest.rest(Math.max(pauses.nextMs(), (shipped.retry_after_seconds ?? 0) * 1000));
        continue;
      }
      pauses.reset();
      if (shipped === 'more') continue;
      for (const finish of waiting) finish();
      await rest.rest(null);
      if (!signal.aborted) await retryRest.rest(batch_ms);
    }
  };
  const emptied = (until: AbortSignal) =>
    new Promise<boolean>((resolve) => {
      const finish = () => {
        waiting.delete(finish);
        until.removeEventListener('abort', finish);
        resolve(!until.aborted);
      };
      if (until.aborted) return finish();
      waiting.add(finish);
      until.addEventListener('abort', finish, { once: true });
      rest.wake();
    });
  return { wake: rest.wake, emptied, done: run() };
}
