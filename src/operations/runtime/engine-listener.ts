/** Carries what the engine tells into the store, under this replica's epoch. */
import { now } from '../../base/clock.ts';
import type { EngineListener, Json } from '../../engine/engine.ts';
import { claimExecution, finishOperation, recordStoreWait } from '../../store/operations/executions.ts';
import { type Publication, publishProgress } from '../../store/operations/publish-progress.ts';
import { endStep } from '../../store/operations/steps.ts';
import type { OperationServices } from './services.ts';
import { stageOf } from './stage.ts';

export function engineListener(services: () => Pick<OperationServices, 'db' | 'clock' | 'executor'>): EngineListener {
  const at = () => now(services().clock);
  return {
    async executing(run) {
      await claimExecution(services().db, run, services().executor, at());
    },
    // Stages begin and end by the operation's own word; what only the engine knows is that a try failed and another follows.
    async stepStarted() {},
    async stepEnded(run, step, ended) {
      if (ended.status === 'retrying')
        await endStep(services().db, run, stageOf(step), ended, services().executor, at());
    },
    async emitted(run, progress: Json) {
      await publishProgress(services().db, run, progress as Publication, services().executor, at());
    },
    async waitedForStore(run, { step, seconds }) {
      await recordStoreWait(services().db, run, { step: step && stageOf(step), seconds }, services().executor, at());
    },
    async ended(run, outcome) {
      // Of its step the stage is told, as everywhere: `clean:driver:2` is a name of the engine's own.
      const failure = outcome.status === 'failed' ? outcome.error : undefined;
      const error = failure && { ...failure, step: failure.step && stageOf(failure.step) };
      await finishOperation(
        services().db,
        run,
        { status: outcome.status, ...(error && { error }) },
        services().executor,
        at(),
      );
    },
  };
}
