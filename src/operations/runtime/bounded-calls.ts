/**
 * Reads between steps. They may not decide which way an operation takes, and a database that is away for a moment may not
 * either: an error here would be neither recorded nor repeated, and a replay would come by another way.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';

const pauseMs = 500;
/** A database away for longer than this is an outage; the operation then ends with an error and is tried again. */
const maxTries = 600;

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

/** Undefined when no answer came in time; one that comes later is not listened to. */
export async function withTimeout<T>(clock: Clock, seconds: number, asked: Promise<T>): Promise<T | undefined> {
  const answered = new AbortController();
  asked.catch(() => {});
  try {
    return await Promise.race([asked, pause(clock, seconds * 1000, answered.signal).then(() => undefined)]);
  } finally {
    answered.abort();
  }
}
