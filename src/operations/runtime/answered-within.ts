/** A question with a bound: a provider that does not answer must not keep an operation from going on. */
import { type Clock, pause } from '../../base/clock.ts';

/** Undefined when no answer came in time; one that comes later is not listened to. */
export async function answeredWithin<T>(clock: Clock, seconds: number, asked: Promise<T>): Promise<T | undefined> {
  const answered = new AbortController();
  asked.catch(() => {});
  try {
    return await Promise.race([asked, pause(clock, seconds * 1000, answered.signal).then(() => undefined)]);
  } finally {
    answered.abort();
  }
}
