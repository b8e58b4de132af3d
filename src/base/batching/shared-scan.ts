/**
 * Shares one expensive scan among many callers. A caller only gets a scan that started after its
 * call, so it sees the effect of its own earlier actions (a signal, a removal). After each scan
 * there is a pause of at least twice its duration.
 */
import { type Clock, pause } from '../clock.ts';

const min_pause_ms = 20;

export function createSharedScan<T>(clock: Clock, read: () => Promise<T>): () => Promise<T> {
  let upcoming: Promise<T> | null = null;
  let previous: Promise<unknown> = Promise.resolve();
  let not_before_ms = Number.NEGATIVE_INFINITY;

  const begin = async (): Promise<T> => {
    await Promise.allSettled([previous]);
    const pause_ms = not_before_ms - clock.monotonicMs();
    if (pause_ms > 0) await pause(clock, pause_ms);
    previous = upcoming ?? previous;
    upcoming = null;
    const started_ms = clock.monotonicMs();
    try {
      return await read();
    } finally {
      const ended_ms = clock.monotonicMs();
      not_before_ms = ended_ms + Math.max(min_pause_ms, 2 * (ended_ms - started_ms));
    }
  };

  return () => {
    upcoming ??= begin();
    return upcoming;
  };
}
