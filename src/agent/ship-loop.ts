/** Ships what waits somewhere, when woken, and again with growing pauses while it cannot. Logs, boot stages and facts use it. */
import type { Clock } from '../base/clock.ts';
import { backoff } from './backoff.ts';
import type { CallFailure } from './call-failure.ts';
import type { Span } from './timing.ts';
import { waker } from './waker.ts';

/** `empty`: wait to be woken. `more`: come again at once. A failure: come again later. */
export type Shipped = 'empty' | 'more' | CallFailure;

export interface ShipLoop {
  wake(): void;
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
  const run = async () => {
    while (!signal.aborted) {
      const shipped = await ship();
      if (typeof shipped === 'object') {
        await retryRest.rest(Math.max(pauses.nextMs(), (shipped.retry_after_seconds ?? 0) * 1000));
        continue;
      }
      pauses.reset();
      if (shipped === 'more') continue;
      await rest.rest(null);
      if (!signal.aborted) await retryRest.rest(gather_ms);
    }
  };
  return { wake: rest.wake, done: run() };
}
