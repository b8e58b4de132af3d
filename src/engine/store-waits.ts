/** Wraps a journal to report how long its run stood still because the store was unavailable. */
import type { JournalEntry, RunJournal } from './run-journal.ts';
import { type ExecutionParts, notify } from './tries.ts';

/** Shorter outages are not worth reporting. */
const minMs = 1_000;

export function reportStoreWaits(parts: ExecutionParts): RunJournal {
  const { journal, store, listener, run, clock } = parts;
  if (!store || !listener.waitedForStore) return journal;
  let step: string | null = null;
  let reportedMs = store.awayMs();

  /** `lostMs` bounds how much time the outage can have cost this run. */
  const report = async (lostMs: number) => {
    const awayMs = Math.min(store.awayMs() - reportedMs, lostMs);
    reportedMs = Math.max(reportedMs, store.awayMs());
    if (awayMs < minMs) return;
    const waited = { step, seconds: Math.round(awayMs / 100) / 10 };
    await notify(parts, 'waitedForStore', async () => listener.waitedForStore?.(run, waited));
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
    // A wait that took no longer than planned cost the run nothing.
    receive: (topic, seconds) =>
      timed(
        () => journal.receive(topic, seconds),
        (wasSent) => (wasSent ? 0 : seconds * 1000),
      ),
  };
}
