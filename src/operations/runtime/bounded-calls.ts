/** Retries reads while the store is unavailable, and gives promises a timeout. */
import { type Clock, pause } from '../../base/clock.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';

const pauseMs = 500;
/** After five minutes without the store, the operation fails. */
const maxTries = 600;

/**
 * For reads between engine steps. The engine does not record these reads, so an error here would
 * make a replay of the operation take another path.
 */
export async function retryWhileUnavailable<T>(clock: Clock, read: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || tries >= maxTries) throw error;
      await pause(clock, pauseMs);
    }
  }
}

/** Resolves with undefined after the timeout. A later result is ignored. */
export async function withTimeout<T>(clock: Clock, seconds: number, call: Promise<T>): Promise<T | undefined> {
  const timeout = new AbortController();
  call.catch(() => {});
  try {
    return await Promise.race([call, pause(clock, seconds * 1000, timeout.signal).then(() => undefined)]);
  } finally {
    timeout.abort();
  }
}
