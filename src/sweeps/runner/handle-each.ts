/** Handles items one by one, so that one failure does not stop the others. */
import { StoreUnavailable } from '../../store/pg/database.ts';

/** Returns the name and error of each item that failed. Throws at once if the store is away. */
export async function handleEach<T>(
  items: readonly T[],
  nameOf: (item: T) => string,
  handle: (item: T) => Promise<void>,
): Promise<string[]> {
  const failures: string[] = [];
  for (const item of items) {
    try {
      await handle(item);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      failures.push(`${nameOf(item)}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return failures;
}
