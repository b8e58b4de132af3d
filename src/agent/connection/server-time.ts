/**
 * Estimates the server's time from the `Date` of its replies; the machine's wall clock may be years
 * off.
 *
 * `Date` has whole seconds. Each reply bounds the true offset from below (`Date` was reached before
 * the reply came) and from above (`Date` plus a second was not reached when we sent the request).
 * The bounds tighten with every reply.
 */
import type { Clock } from '../../base/clock.ts';

export interface ServerTime {
  heard(date: string | undefined, sent_ms: number, answered_ms: number): void;
  /** Milliseconds since the epoch; by this machine's clock until a server has answered. */
  nowMs(): number;
  wasHeard(): boolean;
  /** Converts a monotonic time to the server's clock; null until a server has answered. */
  whenMs(monotonic_ms: number): number | null;
}

export function serverTime(clock: Clock): ServerTime {
  let min = Number.NEGATIVE_INFINITY;
  let max = Number.POSITIVE_INFINITY;
  const wasHeard = () => min !== Number.NEGATIVE_INFINITY;
  const whenMs = (monotonic_ms: number) => (wasHeard() ? monotonic_ms + (min + max) / 2 : null);
  return {
    heard(date, sent_ms, answered_ms) {
      const dateMs = Date.parse(date ?? '');
      if (Number.isNaN(dateMs)) return;
      const atLeast = dateMs - answered_ms;
      const atMost = dateMs + 1000 - sent_ms;
      // The bounds contradict each other if the server's clock was set or another server answered:
      // use the latest.
      const agrees = atLeast <= max && atMost >= min;
      min = agrees ? Math.max(min, atLeast) : atLeast;
      max = agrees ? Math.min(max, atMost) : atMost;
    },
    nowMs: () => whenMs(clock.monotonicMs()) ?? clock.nowMs(),
    wasHeard,
    whenMs,
  };
}
