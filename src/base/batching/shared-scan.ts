/**
 * Shares one expensive scan among many callers. A caller only gets a scan that started after its
 * call, so it sees the effect of its own earlier actions (a signal, a removal). Scans take at most
 * a third of the time.
 */
import { type Clock, pause } from '../clock.ts';

const shortest_gap_ms = 20;

export function sharedScan<T>(clock: Clock, read: () => Promise<T>): () => Promise<T> {
  let upcoming: Promise<T> | null = null;
  let previous: Promise<unknown> = Promise.resolve();
  let rested_at_ms = Number.NEGATIVE_INFINITY;

  const begin = async (): Promise<T> => {
    await Promise.allSettled([previous]);
    const rest_ms = rested_at_ms - clock.monotonicMs();
    if (rest_ms > 0) await pause(clock, rest_ms);
    previous = upcoming ?? previous;
    upcoming = null;
    const began_ms = clock.monotonicMs();
    try {
      return await read();
    } finally {
      const ended_ms = clock.monotonicMs();
      rested_at_ms = ended_ms + Math.max(shortest_gap_ms, 2 * (ended_ms - began_ms));
    }
  };

  return () => {
    upcoming ??= begin();
    return upcoming;
  };
}
