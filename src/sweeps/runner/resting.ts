/**
 * Limits an expensive sweep that is woken often to a share of the time, by resting after each pass.
 */
import type { Clock } from '../../base/clock.ts';
import type { Sweep } from './sweep.ts';

export function resting(clock: Clock, share: number, look: Sweep['run']): Sweep['run'] {
  let restUntilMs = Number.NEGATIVE_INFINITY;
  return async (now) => {
    const startedMs = clock.monotonicMs();
    if (startedMs < restUntilMs) return { decided: 0, next_in_seconds: (restUntilMs - startedMs) / 1000 };
    const report = await look(now);
    const endedMs = clock.monotonicMs();
    restUntilMs = endedMs + (endedMs - startedMs) / share;
    return report;
  };
}
