/**
 * What time the server has, from the `Date` of its replies; the machine's own wall clock may be years off.
 *
 * `Date` is cut to whole seconds. Each reply bounds the true offset from below (it was not yet `Date` before the reply
 * came) and from above (a second after `Date` had not passed when we asked), and the bounds tighten with every reply.
 */
import type { Clock } from '../../base/clock.ts';

export interface ServerTime {
  heard(date: string | undefined, asked_ms: number, answered_ms: number): void;
  /** Milliseconds since the epoch; by this machine's clock for as long as no server was heard. */
  nowMs(): number;
  wasHeard(): boolean;
  /** When that was, by the server's clock; null for as long as no server was heard. */
  whenMs(monotonic_ms: number): number | null;
}

export function serverTime(clock: Clock): ServerTime {
  let least = Number.NEGATIVE_INFINITY;
  let most = Number.POSITIVE_INFINITY;
  const wasHeard = () => least !== Number.NEGATIVE_INFINITY;
  const whenMs = (monotonic_ms: number) => (wasHeard() ? monotonic_ms + (least + most) / 2 : null);
  return {
    heard(date, asked_ms, answered_ms) {
      const dateMs = Date.parse(date ?? '');
      if (Number.isNaN(dateMs)) return;
      const atLeast = dateMs - answered_ms;
      const atMost = dateMs + 1000 - asked_ms;
      // The bounds contradict each other when the server's clock was set, or another server answered: believe the latest.
      const agrees = atLeast <= most && atMost >= least;
      least = agrees ? Math.max(least, atLeast) : atLeast;
      most = agrees ? Math.min(most, atMost) : atMost;
    },
    nowMs: () => whenMs(clock.monotonicMs()) ?? clock.nowMs(),
    wasHeard,
    whenMs,
  };
}
