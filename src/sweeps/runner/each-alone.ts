/** Tries each item on its own, so that one failure does not stop the others. */
import { StoreUnavailable } from '../../store/pg/database.ts';

/** Returns which items failed and why. Stops at once if the store is unavailable. */
export async function eachAlone<T>(
  all: readonly T[],
  nameOf: (each: T) => string,
  work: (each: T) => Promise<void>,
): Promise<string[]> {
  const failed: string[] = [];
  for (const each of all) {
    try {
      await work(each);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      failed.push(`${nameOf(each)}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return failed;
}
