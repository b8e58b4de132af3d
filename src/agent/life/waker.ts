/**
 * A pause that can be ended early. A wake between pauses is not lost: the next pause then ends at
 * once.
 */
import { type Clock, pause } from '../../base/clock.ts';

export interface Waker {
  wake(): void;
  /** Ends after `ms` (null: no limit), at a wake, or when the signal aborts. */
  rest(ms: number | null): Promise<void>;
}

export function waker(clock: Clock, signal: AbortSignal): Waker {
  let woken = false;
  let end: (() => void) | null = null;
  const restUntilWoken = (ms: number | null) => {
    const early = new AbortController();
    end = () => early.abort();
    if (ms !== null) return pause(clock, ms, early.signal);
    return new Promise<void>((resolve) => early.signal.addEventListener('abort', () => resolve(), { once: true }));
  };
  signal.addEventListener('abort', () => end?.(), { once: true });
  return {
    wake() {
      woken = true;
      end?.();
    },
    async rest(ms) {
      if (!woken && !signal.aborted) await restUntilWoken(ms);
      end = null;
      woken = false;
    },
  };
}
