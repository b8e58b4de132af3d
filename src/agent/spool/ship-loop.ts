/** Ships pending items when woken, and retries with growing pauses. */

import { type BackoffLimits, createBackoff } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { waker } from '../life/waker.ts';

/** After `empty` the loop waits for a wake, after `more` it calls again, after a failure later. */
export type ShipResult = 'empty' | 'more' | CallFailure;

export interface ShipLoop {
  wake(): void;
  /** Resolves to true when nothing is pending, or to false if the signal aborts first. */
  waitUntilEmpty(signal: AbortSignal): Promise<boolean>;
  done: Promise<void>;
}

export interface ShipLoopParts {
  clock: Clock;
  signal: AbortSignal;
  ship(): Promise<ShipResult>;
  /** Items that come within this time after a wake are sent together. */
  batch_ms: number;
  retry: BackoffLimits;
}

export function shipLoop({ clock, signal, ship, batch_ms, retry }: ShipLoopParts): ShipLoop {
  const idlePause = waker(clock, signal);
  // A wake must not end a retry pause: a command that logs a lot would cause a busy loop.
  const retryPause = waker(clock, signal);
  const pauses = createBackoff(retry);
  const emptyListeners = new Set<() => void>();
  const run = async () => {
    while (!signal.aborted) {
      const result = await ship();
      if (typeof result === 'object') {
        await retryPause.rest(Math.max(pauses.nextMs(), (result.retry_after_seconds ?? 0) * 1000));
        continue;
      }
      pauses.reset();
      if (result === 'more') continue;
      for (const finish of emptyListeners) finish();
      await idlePause.rest(null);
      if (!signal.aborted) await retryPause.rest(batch_ms);
    }
  };
  const waitUntilEmpty = (limit: AbortSignal) =>
    new Promise<boolean>((resolve) => {
      const finish = () => {
        emptyListeners.delete(finish);
        limit.removeEventListener('abort', finish);
        resolve(!limit.aborted);
      };
      if (limit.aborted) return finish();
      emptyListeners.add(finish);
      limit.addEventListener('abort', finish, { once: true });
      idlePause.wake();
    });
  return { wake: idlePause.wake, waitUntilEmpty, done: run() };
}
