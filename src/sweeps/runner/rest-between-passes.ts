/**
 * Wraps an expensive sweep that is woken often. The sweep rests after each pass, so that it runs at
 * most for this `share` of the time.
 */
import type { Clock } from '../../base/clock.ts';
import type { Sweep } from './sweep.ts';

export function restBetweenPasses(clock: Clock, share: number, pass: Sweep['run']): Sweep['run'] {
  let restUntilMs = Number.NEGATIVE_INFINITY;
  return async (now) => {
    const startedMs = clock.monotonicMs();
    if (startedMs < restUntilMs) return { decided: 0, next_in_seconds: (restUntilMs - startedMs) / 1000 };
    const report = await pass(now);
    const endedMs = clock.monotonicMs();
    restUntilMs = endedMs + (endedMs - startedMs) / share;
    return report;
  };
}
