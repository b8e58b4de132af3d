/**
 * Executes a run from `executing` to `ended`, the same way for every adapter. Never throws: every
 * error becomes an outcome, and `ended` is repeated until the listener accepts the outcome.
 */
import { pause } from '../base/clock.ts';
import { OperationCancelled, type OperationDefinition, type RunOutcome, StepError, StepFailed } from './engine.ts';
import { createOperationContext } from './operation-context.ts';
import { unknownProblem } from './retry.ts';
import { type JournalEntry, never, type RunJournal } from './run-journal.ts';
import { type ExecutionParts, identity, notify } from './tries.ts';

/** Shorter outages are not reported. */
export const minReportedMs = 1_000;

/**
 * Wraps a journal to report how long its run had to wait because the store was unavailable. The
 * time between two calls of the journal counts too, because operations also read between steps.
 */
function reportStoreWaits(parts: ExecutionParts): RunJournal {
  const { journal, store, listener, run, clock } = parts;
  if (!store || !listener.waitedForStore) return journal;
  let step: string | null = null;
  let reportedMs = store.awayMs();
  let lastCallMs = clock.monotonicMs();

  /** `lostMs`: the longest time that an outage can have cost this run since the last report. */
  const report = async (lostMs: number) => {
    const awayMs = Math.min(store.awayMs() - reportedMs, lostMs);
    reportedMs = Math.max(reportedMs, store.awayMs());
    if (awayMs < minReportedMs) return;
    const waited = { step, seconds: Math.round(awayMs / 100) / 10 };
    await notify(parts, 'waitedForStore', async () => listener.waitedForStore?.(run, waited));
  };
  const timed = async <T>(call: () => Promise<T>, plannedMs: (answer: T) => number): Promise<T> => {
    const answer = await call();
    await report(clock.monotonicMs() - lastCallMs - plannedMs(answer));
    lastCallMs = clock.monotonicMs();
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

const firstPauseMs = 250;
/** The listener writes to the store, and runs must continue within seconds once it is back. */
const maxPauseMs = 2_000;
const isPowerOfTwo = (count: number) => (count & (count - 1)) === 0;

/**
 * Retries until the call succeeds. While the listener fails, the run does not continue here, and
 * another replica may take it over.
 */
async function retryUntilDone(parts: ExecutionParts, what: string, call: () => Promise<void>): Promise<void> {
  const { journal, clock, log, run } = parts;
  for (let tries = 1; ; tries++) {
    if (journal.stopped.aborted) return never();
    try {
      return await call();
    } catch (error) {
      // Log rarely: many runs retry at once while the store is unavailable.
      if (isPowerOfTwo(tries))
        log.error({ ...identity(run), err: error, tries }, `the engine's listener failed at ${what}; retrying`);
    }
    await pause(clock, Math.min(firstPauseMs * 2 ** Math.min(tries - 1, 10), maxPauseMs), journal.stopped);
  }
}

const failed = (step: string | null, problem: { code: string; owner_layer: string; message: string }): RunOutcome => ({
  status: 'failed',
  error: { step, code: problem.code, owner_layer: problem.owner_layer, message: problem.message },
});

function outcomeOf(error: unknown): RunOutcome {
  if (error instanceof OperationCancelled) return { status: 'cancelled' };
  if (error instanceof StepFailed) return failed(error.step, error);
  if (error instanceof StepError) return failed(null, error);
  return failed(null, unknownProblem(error));
}

async function perform(definition: OperationDefinition, parts: ExecutionParts): Promise<RunOutcome> {
  try {
    return { status: 'succeeded', result: await definition.run(createOperationContext(parts), parts.run.params) };
  } catch (error) {
    if (!(error instanceof OperationCancelled || error instanceof StepFailed)) {
      parts.log.error({ ...identity(parts.run), err: error }, 'an operation threw an error outside of its steps');
    }
    return outcomeOf(error);
  }
}

export async function executeRun(definition: OperationDefinition, execution: ExecutionParts): Promise<void> {
  const parts = { ...execution, journal: reportStoreWaits(execution) };
  const { journal, listener, run } = parts;
  await retryUntilDone(parts, 'executing', () => listener.executing(run));
  const finished = perform(definition, parts).then((outcome) =>
    journal.record({ step: 'engine:ended', try: 1 }, async () => {
      await retryUntilDone(parts, 'ended', () => listener.ended(run, outcome));
      return null;
    }),
  );
  const divergence = await Promise.race([finished, journal.diverged]);
  if (divergence === null) return;
  // The journal cannot record anything for this run any more. A crash may repeat this call, which
  // is harmless.
  await retryUntilDone(parts, 'ended', () => listener.ended(run, failed(null, unknownProblem(divergence))));
}
