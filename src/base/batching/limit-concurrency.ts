/**
 * Runs at most `limit` calls at a time, in order of arrival. Use this for work that needs a
 * database connection: a waiting call holds none. If `isFatal` returns true for an error, all
 * waiting calls are rejected with it.
 */
export function limitConcurrency(
  limit: number,
  isFatal: (error: unknown) => boolean,
): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: { start(): void; reject(error: unknown): void }[] = [];
  let running = 0;

  return async (work) => {
    if (running >= limit) await new Promise<void>((start, reject) => waiting.push({ start, reject }));
    else running++;
    try {
      return await work();
    } catch (error) {
      if (isFatal(error)) for (const each of waiting.splice(0)) each.reject(error);
      throw error;
    } finally {
      // Pass the slot to the next waiting call, so that a new call cannot overtake it.
      const next = waiting.shift();
      if (next) next.start();
      else running--;
    }
  };
}
