/** Writes that a full disk may delay, but that must not stop what the agent is doing. */
import type { Clock } from '../../base/clock.ts';

const retry_ms = 5_000;

/**
 * Returns a function that writes now, or later if the write fails. `write` writes what the caller
 * keeps in memory, so a later write is never out of date. `onFailure` is called for the first of
 * several failures.
 */
export function createRetryingWriter(clock: Clock, write: () => void, onFailure: (error: unknown) => void): () => void {
  let isRetryDue = false;
  let hasFailed = false;
  const tryWrite = () => {
    try {
      write();
      hasFailed = false;
    } catch (error) {
      if (!isRetryDue) clock.after(retry_ms, retry);
      isRetryDue = true;
      if (!hasFailed) onFailure(error);
      hasFailed = true;
    }
  };
  const retry = () => {
    isRetryDue = false;
    tryWrite();
  };
  return tryWrite;
}
