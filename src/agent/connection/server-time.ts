/**
 * Estimates the server's time from the `Date` header of its replies, because the machine's wall
 * clock may be years off.
 *
 * `Date` has whole seconds. Each reply gives a lower bound of the offset (the server had reached
 * `Date` when the reply came) and an upper bound (it had not reached `Date` plus one second when
 * the request was sent). The bounds get closer with every reply.
 */
import type { Clock } from '../../base/clock.ts';

export interface ServerTime {
  /** Takes the `Date` header of a reply. Times are monotonic. */
  onDate(date: string | undefined, sent_ms: number, answered_ms: number): void;
  /** Milliseconds since the epoch; by this machine's clock until a server has answered. */
  nowMs(): number;
  /** Whether a server has answered. */
  isKnown(): boolean;
  /** Converts a monotonic time to the server's clock; null until a server has answered. */
  serverTimeAt(monotonic_ms: number): number | null;
}

export function serverTime(clock: Clock): ServerTime {
  let min = Number.NEGATIVE_INFINITY;
  let max = Number.POSITIVE_INFINITY;
  const isKnown = () => min !== Number.NEGATIVE_INFINITY;
  const serverTimeAt = (monotonic_ms: number) => (isKnown() ? monotonic_ms + (min + max) / 2 : null);
  return {
    onDate(date, sent_ms, answered_ms) {
      const dateMs = Date.parse(date ?? '');
      if (Number.isNaN(dateMs)) return;
      const atLeast = dateMs - answered_ms;
      const atMost = dateMs + 1000 - sent_ms;
      // The bounds contradict each other if the server's clock was changed or another server
      // answered. Then only the latest reply counts.
      const agrees = atLeast <= max && atMost >= min;
      min = agrees ? Math.max(min, atLeast) : atLeast;
      max = agrees ? Math.min(max, atMost) : atMost;
    },
    nowMs: () => serverTimeAt(clock.monotonicMs()) ?? clock.nowMs(),
    isKnown,
    serverTimeAt,
  };
}
