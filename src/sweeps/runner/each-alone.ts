/** One that fails never stops the others: each is tried alone. */
import { StoreUnavailable } from '../../store/pg/database.ts';

/** Answers who failed and why, for somebody to hear of it once all are done. Without the store nobody has to be tried. */
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
