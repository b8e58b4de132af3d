/**
 * A run's journal in DBOS: each effect is a DBOS step, and each wait is a `recv`. Call it only
 * inside the workflow function, because DBOS keeps the position in the async context.
 */
import { DBOS, DBOSStepNondeterminismError, DBOSWorkflowConflictError, Error as DbosErrors } from '@dbos-inc/dbos-sdk';
import type { Json } from './engine.ts';
import { type JournalEntry, never, type RunJournal, type Topic } from './run-journal.ts';

export interface DbosJournalParts {
  /** The workflow id that DBOS uses. */
  dbos_id: string;
  stopped: AbortSignal;
  cancelSent(dbos_id: string): Promise<boolean>;
  /** Another replica, or an operator with DBOS's tools, took the run over. */
  runTaken(error: Error): void;
  /** The journal failed in a way that DBOS does not retry; the run must be executed again. */
  journalFailed(error: unknown): void;
}

const isTakeover = (error: unknown): error is Error =>
  error instanceof DBOSWorkflowConflictError || error instanceof DbosErrors.DBOSWorkflowCancelledError;

const isDivergence = (error: unknown): error is Error =>
  error instanceof DBOSStepNondeterminismError || error instanceof DbosErrors.DBOSUnexpectedStepError;

export function createDbosJournal(parts: DbosJournalParts): RunJournal {
  const { dbos_id, stopped } = parts;
  const { promise: diverged, resolve: diverge } = Promise.withResolvers<Error>();

  /** Hides DBOS errors from the operation, which would record them as its own failure. */
  const guarded = async <T>(call: () => Promise<T>): Promise<T> => {
    if (stopped.aborted) return never();
    try {
      const answer = await call();
      return stopped.aborted ? never() : answer;
    } catch (error) {
      if (stopped.aborted) return never();
      if (isTakeover(error)) parts.runTaken(error);
      else if (isDivergence(error)) diverge(error);
      else parts.journalFailed(error);
      return never();
    }
  };

  return {
    stopped,
    diverged,
    record: <T extends Json>(entry: JournalEntry, effect: () => Promise<T>) =>
      guarded(() => DBOS.runStep(effect, { name: entry.step })),
    receive: (topic: Topic, seconds: number) =>
      guarded(async () => (await DBOS.recv(topic, { timeoutSeconds: Math.max(0, seconds) })) !== null),
    cancelSent: () => parts.cancelSent(dbos_id),
  };
}
