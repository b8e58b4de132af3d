/**
 * The part of an adapter that one execution of a run uses: an ordered record of results, and
 * messages to wait for. Retries, cancel and waits are built on it, so both adapters behave alike.
 *
 * After an execution has lost its run (shutdown, crash, takeover), it must neither continue nor
 * end: every call then returns a promise that never settles.
 */
import type { Json } from './engine.ts';

export interface JournalEntry {
  step: string;
  try: number;
}

/** Messages are only signals; checks and steps read the facts. */
export type Topic = 'wake' | 'cancel' | 'silence';

export interface RunJournal {
  /**
   * Runs `effect` unless its result is recorded, and returns the recorded result. `effect` does not
   * throw.
   */
  record<T extends Json>(entry: JournalEntry, effect: () => Promise<T>): Promise<T>;
  /**
   * Consumes one message of `topic`. Waits at most `seconds`, counted from the first execution.
   * Recorded.
   */
  receive(topic: Topic, seconds: number): Promise<boolean>;
  /** Whether cancel was ever sent. Not recorded, so call it only inside an effect. */
  cancelSent(): Promise<boolean>;
  /** Aborted when this execution must stop. */
  readonly stopped: AbortSignal;
  /**
   * Resolves when the code requests other entries than those recorded; the run can never continue.
   */
  readonly diverged: Promise<Error>;
}

export const never = (): Promise<never> => new Promise(() => {});

/** The journal's store did not answer; the call may be retried. */
export class JournalUnavailable extends Error {
  override name = 'JournalUnavailable';
}
