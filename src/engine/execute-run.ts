/**
 * Executes a run from `executing` to `ended`, the same way for every adapter. Never throws: every
 * error becomes an outcome, and `ended` is repeated until the listener accepts the outcome.
 */
import { pause } from '../base/clock.ts';
import { OperationCancelled, type OperationDefinition, type RunOutcome, StepError, StepFailed } from './engine.ts';
import { createOperationContext } from './operation-context.ts';
import { unknownProblem } from './retry.ts';
import { type JournalEntry, neverSettle, type RunJournal } from './run-journal.ts';
import { type ExecutionParts, identity, notify } from './tries.ts';

/** Shorter outages are not reported. */
export const minReportedMs = 1_000;

/**
 * Wraps a journal to report how long its run had to wait because the store was unavailable. The
 * time between two calls of the journal counts too, because operations read the store between
 * steps.
 */
function reportStoreWaits(parts: ExecutionParts): RunJournal {
  const { journal, store, listener, run, clock } = parts;
  if (!store || !listener.waitedForStore) return journal;
  let step: string | null = null;
  let reportedMs = store.unavailableMs();
  let lastCallMs = clock.monotonicMs();

  /**
   * `lostMs`: the longest time that an outage can have cost this run since its last journal call.
   */
  const report = async (lostMs: number) => {
    const unavailableMs = Math.min(store.unavailableMs() - reportedMs, lostMs);
    reportedMs = Math.max(reportedMs, store.unavailableMs());
    if (unavailableMs < minReportedMs) return;
    const storeWait = { step, seconds: Math.round(unavailableMs / 100) / 10 };
    await notify(parts, 'waitedForStore', async () => listener.waitedForStore?.(run, storeWait));
  };
  const measureCall = async <T>(call: () => Promise<T>, plannedMs: (answer: T) => number): Promise<T> => {
    const answer = await call();
    await report(clock.monotonicMs() - lastCallMs - plannedMs(answer));
    lastCallMs = clock.monotonicMs();
    return answer;
  };

  return {
    ...journal,
    record(entry: JournalEntry, effect) {
      step = entry.step;
      return measureCall(
        () => journal.record(entry, effect),
        () => 0,
      );
    },
    // If no message came, the run would have waited the planned time anyway, so only the excess
    // counts. A message may have been delayed by the outage, so then the whole wait counts.
    receive: (topic, seconds) =>
      measureCall(
        () => journal.receive(topic, seconds),
        (messageCame) => (messageCame ? 0 : seconds * 1000),
      ),
  };
}

const firstPauseMs = 250;
/** The listener writes to the store, and runs must continue within seconds once it is back. */
const maxPauseMs = 2_000;
const isPowerOfTwo = (count: number) => (count & (count - 1)) === 0;

/**
 * Retries until the call succeeds. While the listener fails, the run does not continue on this
 * replica, and another replica may take it over.
 */
async function retryUntilDone(parts: ExecutionParts, callback: string, call: () => Promise<void>): Promise<void> {
  const { journal, clock, log, run } = parts;
  for (let tries = 1; ; tries++) {
    if (journal.stopSignal.aborted) return neverSettle();
    try {
      return await call();
    } catch (error) {
      // Log rarely: many runs retry at once while the store is unavailable.
      if (isPowerOfTwo(tries))
        log.error(
          { ...identity(run), err: error, tries },
          `the engine listener's callback "${callback}" failed; retrying`,
        );
    }
    await pause(clock, Math.min(firstPauseMs * 2 ** Math.min(tries - 1, 10), maxPauseMs), journal.stopSignal);
  }
}

const failedOutcome = (
  step: string | null,
  problem: { code: string; owner_layer: string; message: string },
): RunOutcome => ({
  status: 'failed',
  error: { step, code: problem.code, owner_layer: problem.owner_layer, message: problem.message },
});

function outcomeOf(error: unknown): RunOutcome {
  if (error instanceof OperationCancelled) return { status: 'cancelled' };
  if (error instanceof StepFailed) return failedOutcome(error.step, error);
  if (error instanceof StepError) return failedOutcome(null, error);
  return failedOutcome(null, unknownProblem(error));
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
  const completion = perform(definition, parts).then((outcome) =>
    journal.record({ step: 'engine:ended', try: 1 }, async () => {
      await retryUntilDone(parts, 'ended', () => listener.ended(run, outcome));
      return null;
    }),
  );
  const divergence = await Promise.race([completion, journal.divergence]);
  if (divergence === null) return;
  // The journal cannot record anything for this run any more. A crash may repeat this call, which
  // is harmless.
  await retryUntilDone(parts, 'ended', () => listener.ended(run, failedOutcome(null, unknownProblem(divergence))));
}
