/**
 * Remembers when a progress object arrived. Its elapsed time was correct at that moment. The
 * console counts on from there, so the banner ticks without another request.
 */
import type { Progress } from '../../../../src/contract/progress.ts';
import { serverNowMs } from '../server-clock.ts';

const arrivals = new WeakMap<Progress, number>();

export function noteArrival(progress: Progress | null | undefined): void {
  if (progress && !arrivals.has(progress)) arrivals.set(progress, serverNowMs());
}

export function arrivedAtMs(progress: Progress): number {
  noteArrival(progress);
  return arrivals.get(progress) ?? serverNowMs();
}
