/** A clock that moves only when advanced, so that tests run hours at once. */
import type { CancelTimer, Clock } from './clock.ts';

export interface VirtualClock extends Clock {
  /**
   * Advances time. Fires each due timer at its own time, and lets its effects settle before the
   * next timer.
   */
  advance(ms: number): Promise<void>;
  /** Advances to the next timer; returns whether there was one. */
  advanceToNext(): Promise<boolean>;
  pendingTimers(): number;
}

interface Timer {
  atMs: number;
  order: number;
  run: () => void;
}

/** Runs all resolved promises, so that a timer's effects happen before time moves on. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

export function virtualClock(startMs = Date.UTC(2026, 0, 1)): VirtualClock {
  let currentMs = startMs;
  let order = 0;
  const timers = new Set<Timer>();

  const findNextTimer = (limit: number): Timer | undefined => {
    let first: Timer | undefined;
    for (const timer of timers) {
      if (timer.atMs > limit) continue;
      if (!first || timer.atMs < first.atMs || (timer.atMs === first.atMs && timer.order < first.order)) first = timer;
    }
    return first;
  };

  const fire = async (timer: Timer) => {
    timers.delete(timer);
    currentMs = Math.max(currentMs, timer.atMs);
    timer.run();
    await settle();
  };

  return {
    nowMs: () => currentMs,
    monotonicMs: () => currentMs - startMs,
    after(delayMs, run): CancelTimer {
      const timer: Timer = { atMs: currentMs + Math.max(0, delayMs), order: order++, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async advance(ms) {
      const target = currentMs + ms;
      await settle();
      for (let due = findNextTimer(target); due; due = findNextTimer(target)) await fire(due);
      currentMs = target;
      await settle();
    },
    async advanceToNext() {
      await settle();
      const due = findNextTimer(Number.POSITIVE_INFINITY);
      if (due) await fire(due);
      return due !== undefined;
    },
    pendingTimers: () => timers.size,
  };
}
