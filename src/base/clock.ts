/**
 * The only module that reads a clock or sets a timer. Everything else is handed a `Clock`, so that any hour can be
 * simulated in a second and a test never has to sleep.
 */

export type CancelTimer = () => void;

export interface Clock {
  /** Wall time in milliseconds since the epoch. In production this is the database's time (see `offsetClock`). */
  nowMs(): number;
  /** Milliseconds that only ever grow; for measuring how long something took. */
  monotonicMs(): number;
  /** Calls `run` once, after `delayMs`. */
  after(delayMs: number, run: () => void): CancelTimer;
}

export const now = (clock: Clock): Date => new Date(clock.nowMs());

/** A moment, from milliseconds; so that no other module constructs dates from an implicit clock. */
export const moment = (ms: number): Date => new Date(ms);

export const secondsLater = (from: Date, seconds: number): Date => new Date(from.getTime() + seconds * 1000);

export const secondsBetween = (from: Date, to: Date): number => (to.getTime() - from.getTime()) / 1000;

/** Node's timers fire at once when the delay does not fit 31 bits; a longer wait is taken in several laps. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(delayMs, run) {
    let timer: NodeJS.Timeout;
    const lap = (left: number) => {
      const next = Math.min(Math.max(0, left), longestTimerMs);
      timer = setTimeout(() => (left > next ? lap(left - next) : run()), next);
    };
    lap(delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * A clock that follows another machine's wall time: its offset was measured once against a monotonic reading, so a step
 * of this host's wall clock moves nothing. All replicas then agree on `now`, because all follow the database.
 */
export function offsetClock(measured: { wallMs: number; monotonicMs: number }, base: Clock = systemClock): Clock {
  return {
    nowMs: () => measured.wallMs + (base.monotonicMs() - measured.monotonicMs),
    monotonicMs: () => base.monotonicMs(),
    after: (delayMs, run) => base.after(delayMs, run),
  };
}

/** Resolves after `ms`, or at once when `signal` fires; it never rejects, the caller looks at the signal. */
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
