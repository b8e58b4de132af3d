/**
 * Runs at most `limit` calls at a time, the others in order of arrival. Use it for work that needs
 * a database connection: a waiting call holds none. After an error that
 * `isFatal`, it rejects all waiting calls with that error.
 */
export function limitConcurrency(
  limit: number,
  isFatal: (error: unknown) => boolean,
): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: { go(): void; giveUp(error: unknown): void }[] = [];
  let busy = 0;

  return async (work) => {
    if (busy >= limit) await new Promise<void>((go, giveUp) => waiting.push({ go, giveUp }));
    else busy++;
    try {
      return await work();
    } catch (error) {
      if (isFatal(error)) for (const each of waiting.splice(0)) each.giveUp(error);
      throw error;
    } finally {
      // Hand the slot to the next in line, so that a new call cannot overtake it.
      const next = waiting.shift();
      if (next) next.go();
      else busy--;
    }
  };
}
