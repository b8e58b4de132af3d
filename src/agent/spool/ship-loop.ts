/** Ships what waits somewhere, when woken, and again with growing pauses while it cannot. Logs, boot stages and facts use it. */

import { backoff, type Span } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { waker } from '../life/waker.ts';

/** `empty`: wait to be woken. `more`: come again at once. A failure: come again later. */
export type Shipped = 'empty' | 'more' | CallFailure;

export interface ShipLoop {
  wake(): void;
  /** True once nothing waited; false when the signal fired before. */
  emptied(until: AbortSignal): Promise<boolean>;
  done: Promise<void>;
}

export interface ShipLoopParts {
  clock: Clock;
  signal: AbortSignal;
  ship(): Promise<Shipped>;
  /** What comes within this time after a wake travels together. */
  gather_ms: number;
  retry: Span;
}

export function shipLoop({ clock, signal, ship, gather_ms, retry }: ShipLoopParts): ShipLoop {
  const rest = waker(clock, signal);
  // Wakes must not cut a pause between tries short: a command that writes much would turn it into a busy loop.
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
      for (const tell of waiting) tell();
      await rest.rest(null);
      if (!signal.aborted) await retryRest.rest(gather_ms);
    }
  };
  const emptied = (until: AbortSignal) =>
    new Promise<boolean>((resolve) => {
      const tell = () => {
        waiting.delete(tell);
        until.removeEventListener('abort', tell);
        resolve(!until.aborted);
      };
      if (until.aborted) return tell();
      waiting.add(tell);
      until.addEventListener('abort', tell, { once: true });
      rest.wake();
    });
  return { wake: rest.wake, emptied, done: run() };
}
