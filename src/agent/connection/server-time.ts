/**
 * Estimates the server's time from the `Date` header of its replies, because the machine's wall
 * clock may be years off. `Date` has whole seconds, so each reply gives a lower and an upper bound
 * of the offset. Further replies narrow the bounds.
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
  let minOffset = Number.NEGATIVE_INFINITY;
  let maxOffset = Number.POSITIVE_INFINITY;
  const isKnown = () => minOffset !== Number.NEGATIVE_INFINITY;
  const serverTimeAt = (monotonic_ms: number) => (isKnown() ? monotonic_ms + (minOffset + maxOffset) / 2 : null);
  return {
    onDate(date, sent_ms, answered_ms) {
      const dateMs = Date.parse(date ?? '');
      if (Number.isNaN(dateMs)) return;
      // The server had reached `Date` when the reply came.
      const lowerBound = dateMs - answered_ms;
      // The server had not reached the next second when the request was sent.
      const upperBound = dateMs + 1000 - sent_ms;
      // The bounds contradict each other if the server's clock was changed or another server
      // answered. Then only the latest reply counts.
      const isConsistent = lowerBound <= maxOffset && upperBound >= minOffset;
      minOffset = isConsistent ? Math.max(minOffset, lowerBound) : lowerBound;
      maxOffset = isConsistent ? Math.min(maxOffset, upperBound) : upperBound;
    },
    nowMs: () => serverTimeAt(clock.monotonicMs()) ?? clock.nowMs(),
    isKnown,
    serverTimeAt,
  };
}
