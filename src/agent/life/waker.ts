/** A pause that a wake can end early. A wake between two pauses ends the next pause at once. */
import { type Clock, pause } from '../../base/clock.ts';

export interface Waker {
  wake(): void;
  /** Ends after `ms`, at a wake, or when the signal aborts. Null means no time limit. */
  rest(ms: number | null): Promise<void>;
}

export function waker(clock: Clock, signal: AbortSignal): Waker {
  let isWoken = false;
  let end: (() => void) | null = null;
  const restUntilWoken = (ms: number | null) => {
    const wakeUp = new AbortController();
    end = () => wakeUp.abort();
    if (ms !== null) return pause(clock, ms, wakeUp.signal);
    return new Promise<void>((resolve) => wakeUp.signal.addEventListener('abort', () => resolve(), { once: true }));
  };
  signal.addEventListener('abort', () => end?.(), { once: true });
  return {
    wake() {
      isWoken = true;
      end?.();
    },
    async rest(ms) {
      if (!isWoken && !signal.aborted) await restUntilWoken(ms);
      end = null;
      isWoken = false;
    },
  };
}
