/**
 * The only module that reads a clock or sets a timer. All other code receives a `Clock`, so tests
 * and simulations need not sleep.
 */

export type CancelTimer = () => void;

export interface Clock {
  /**
   * Wall time in milliseconds since the epoch. In a server, this is the database's time (see
   * `offsetClock`).
   */
  nowMs(): number;
  /** Monotonic milliseconds, for measuring durations. */
  monotonicMs(): number;
  /** Calls `run` once, after `delayMs`. */
  after(delayMs: number, run: () => void): CancelTimer;
}

export const now = (clock: Clock): Date => new Date(clock.nowMs());

/** Creates a date from milliseconds, so that other modules need not construct dates. */
export const moment = (ms: number): Date => new Date(ms);

export const secondsLater = (from: Date, seconds: number): Date => new Date(from.getTime() + seconds * 1000);

/** For wire fields that are null until an event has happened. */
export const iso = (date: Date | null): string | null => date?.toISOString() ?? null;

export const secondsBetween = (from: Date, to: Date): number => (to.getTime() - from.getTime()) / 1000;

/** Node fires a timer at once if its delay exceeds 31 bits, so longer waits use several timers. */
const maxTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(delayMs, run) {
    let timer: NodeJS.Timeout;
    const startTimer = (remainingMs: number) => {
      const timerMs = Math.min(Math.max(0, remainingMs), maxTimerMs);
      timer = setTimeout(() => (remainingMs > timerMs ? startTimer(remainingMs - timerMs) : run()), timerMs);
    };
    startTimer(delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * A clock that follows another machine's wall time. The offset is measured once against a monotonic
 * clock, so steps of this host's wall clock have no effect. All replicas follow the database and so
 * agree on `now`.
 */
export function offsetClock(measurement: { wallMs: number; monotonicMs: number }, base: Clock = systemClock): Clock {
  return {
    nowMs: () => measurement.wallMs + (base.monotonicMs() - measurement.monotonicMs),
    monotonicMs: () => base.monotonicMs(),
    after: (delayMs, run) => base.after(delayMs, run),
  };
}

/**
 * Resolves after `ms`, or as soon as `signal` aborts. Never rejects; the caller checks the signal.
 */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    const stop = () => {
      cancel();
      resolve();
    };
    signal?.addEventListener('abort', stop, { once: true });
  });
}
