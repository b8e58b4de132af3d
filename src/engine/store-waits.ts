/** A journal that reports how long its run stood still because the store was away. */
import type { JournalEntry, RunJournal } from './run-journal.ts';
import { type ExecutionParts, tell } from './tries.ts';

/** Shorter absences are within what a step may take anyway. */
const leastMs = 1_000;

export function reportStoreWaits(parts: ExecutionParts): RunJournal {
  const { journal, store, listener, run, clock } = parts;
  if (!store || !listener.waitedForStore) return journal;
  let step: string | null = null;
  let reportedMs = store.awayMs();

  /** `lostMs`: as much as the wait can have cost this run. */
  const report = async (lostMs: number) => {
    const awayMs = Math.min(store.awayMs() - reportedMs, lostMs);
    reportedMs = Math.max(reportedMs, store.awayMs());
    if (awayMs < leastMs) return;
    const waited = { step, seconds: Math.round(awayMs / 100) / 10 };
    await tell(parts, 'waitedForStore', async () => listener.waitedForStore?.(run, waited));
  };
  const timed = async <T>(call: () => Promise<T>, plannedMs: (answer: T) => number): Promise<T> => {
    const begunMs = clock.monotonicMs();
    const answer = await call();
    await report(clock.monotonicMs() - begunMs - plannedMs(answer));
    return answer;
  };

  return {
    ...journal,
    record(entry: JournalEntry, effect) {
      step = entry.step;
      return timed(
        () => journal.record(entry, effect),
        () => 0,
      );
    },
    // A pause that took no longer than it was meant to cost the run nothing.
    receive: (topic, seconds) =>
      timed(
        () => journal.receive(topic, seconds),
        (wasSent) => (wasSent ? 0 : seconds * 1000),
      ),
  };
}
