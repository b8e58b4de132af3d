/** For a sweep that is woken often and dear to run: it rests after each pass, so that it takes no more than a share of the time. */
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
