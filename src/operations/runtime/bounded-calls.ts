/**
 * Calls with a limit: store reads that retry while the database is away, and promises with a
 * timeout.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';

const pauseMs = 500;
/** After this long it is an outage: the operation fails and is tried again. */
const maxTries = 600;

/**
 * For reads between engine steps. They are not recorded, so an error there would send a replay
 * along another path.
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
  const settled = new AbortController();
  call.catch(() => {});
  try {
    return await Promise.race([call, pause(clock, seconds * 1000, settled.signal).then(() => undefined)]);
  } finally {
    settled.abort();
  }
}
