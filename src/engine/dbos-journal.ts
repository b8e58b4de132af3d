/**
 * A run's journal in DBOS: each effect is a DBOS step, and each wait is a `recv`. Use the journal
 * only inside the workflow function, because DBOS keeps the position in the async context.
 */
import { DBOS, DBOSStepNondeterminismError, DBOSWorkflowConflictError, Error as DbosErrors } from '@dbos-inc/dbos-sdk';
import type { Json } from './engine.ts';
import { type JournalEntry, neverSettle, type RunJournal, type Topic } from './run-journal.ts';

export interface DbosJournalParts {
  /** The workflow id that DBOS uses. */
  dbos_id: string;
  stopSignal: AbortSignal;
  wasCancelSent(dbos_id: string): Promise<boolean>;
  /** Another replica, or an operator with DBOS's tools, took the run over. */
  onTakeover(error: Error): void;
  /** The journal failed in a way that DBOS does not retry; the run must be executed again. */
  onJournalFailure(error: unknown): void;
}

export const isTakeover = (error: unknown): error is Error =>
  error instanceof DBOSWorkflowConflictError || error instanceof DbosErrors.DBOSWorkflowCancelledError;

const isDivergence = (error: unknown): error is Error =>
  error instanceof DBOSStepNondeterminismError || error instanceof DbosErrors.DBOSUnexpectedStepError;

export function createDbosJournal(parts: DbosJournalParts): RunJournal {
  const { dbos_id, stopSignal } = parts;
  const { promise: divergence, resolve: diverge } = Promise.withResolvers<Error>();

  /** Hides DBOS errors from the operation, which would record them as its own failure. */
  const runGuarded = async <T>(call: () => Promise<T>): Promise<T> => {
    if (stopSignal.aborted) return neverSettle();
    try {
      const answer = await call();
      return stopSignal.aborted ? neverSettle() : answer;
    } catch (error) {
      if (stopSignal.aborted) return neverSettle();
      if (isTakeover(error)) parts.onTakeover(error);
      else if (isDivergence(error)) diverge(error);
      else parts.onJournalFailure(error);
      return neverSettle();
    }
  };

  return {
    stopSignal,
    divergence,
    record: <T extends Json>(entry: JournalEntry, effect: () => Promise<T>) =>
      runGuarded(() => DBOS.runStep(effect, { name: entry.step })),
    receive: (topic: Topic, seconds: number) =>
      runGuarded(async () => (await DBOS.recv(topic, { timeoutSeconds: Math.max(0, seconds) })) !== null),
    wasCancelSent: () => parts.wasCancelSent(dbos_id),
  };
}
