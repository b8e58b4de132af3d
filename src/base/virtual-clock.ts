/** A clock that stands still until it is told to move: tests and the simulator run hours in milliseconds with it. */
import type { CancelTimer, Clock } from './clock.ts';

export interface VirtualClock extends Clock {
  /** Moves time forward, firing each due timer at its own moment and letting its consequences settle before the next. */
  advance(ms: number): Promise<void>;
  /** Moves to the next timer, if there is one; says whether there was. */
  advanceToNext(): Promise<boolean>;
  pendingTimers(): number;
}

interface Timer {
  atMs: number;
  order: number;
  run: () => void;
}

/** Lets all already-resolved promises run, so that what a timer caused has happened before time moves on. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

export function virtualClock(startMs = Date.UTC(2026, 0, 1)): VirtualClock {
  let current = startMs;
  let order = 0;
  const timers = new Set<Timer>();

  const nextDue = (limit: number): Timer | undefined => {
    let first: Timer | undefined;
    for (const timer of timers) {
      if (timer.atMs > limit) continue;
      if (!first || timer.atMs < first.atMs || (timer.atMs === first.atMs && timer.order < first.order)) first = timer;
    }
    return first;
  };

  const fire = async (timer: Timer) => {
    timers.delete(timer);
    current = Math.max(current, timer.atMs);
    timer.run();
    await settle();
  };

  return {
    nowMs: () => current,
    monotonicMs: () => current - startMs,
    after(delayMs, run): CancelTimer {
      const timer: Timer = { atMs: current + Math.max(0, delayMs), order: order++, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async advance(ms) {
      const target = current + ms;
      await settle();
      for (let due = nextDue(target); due; due = nextDue(target)) await fire(due);
      current = target;
      await settle();
    },
    async advanceToNext() {
      await settle();
      const due = nextDue(Number.POSITIVE_INFINITY);
      if (due) await fire(due);
      return due !== undefined;
    },
    pendingTimers: () => timers.size,
  };
}
