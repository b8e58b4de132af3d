/**
 * Executes a run from `executing` to `ended`, the same way for every adapter. Never throws: every
 * error becomes an outcome, and the listener is called until it accepts it.
 */
import { pause } from '../base/clock.ts';
import { OperationCancelled, type OperationDefinition, type RunOutcome, StepError, StepFailed } from './engine.ts';
import { createOperationContext } from './operation-context.ts';
import { unknownProblem } from './retry.ts';
import { never } from './run-journal.ts';
import { reportStoreWaits } from './store-waits.ts';
import { type ExecutionParts, identity } from './tries.ts';

const firstPauseMs = 250;
/** The listener writes to the store; runs must continue within seconds once it is back. */
const maxPauseMs = 2_000;
const isPowerOfTwo = (count: number) => (count & (count - 1)) === 0;

/**
 * Retries until the call succeeds. While the listener fails, nothing executes here, and another
 * replica may take over.
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
        log.error({ ...identity(run), err: error, tries }, `the engine's listener failed at ${what}; again`);
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

export async function executeRun(definition: OperationDefinition, given: ExecutionParts): Promise<void> {
  const parts = { ...given, journal: reportStoreWaits(given) };
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
  // Nothing can be recorded for this run any more; repeating the call after a crash is harmless.
  await retryUntilDone(parts, 'ended', () => listener.ended(run, failed(null, unknownProblem(divergence))));
}
