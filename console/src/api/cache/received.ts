/**
 * Remembers when a progress object arrived. Its elapsed time is the server's at that moment; the
 * console counts on from there with its own clock, so the banner ticks without another request.
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
