/**
 * The part of an adapter that one execution of a run uses: an ordered record of results, and
 * messages to wait for. Retries, cancel and waits are built on it, so both adapters behave alike.
 *
 * After an execution has lost its run (shutdown, crash, takeover), it must stop without ending the
 * run: every call then returns a promise that never settles.
 */
import type { Json } from './engine.ts';

export interface JournalEntry {
  step: string;
  try: number;
}

/**
 * Messages have no content: a wake only makes a wait check again. No message of topic `silence` is
 * ever sent.
 */
export type Topic = 'wake' | 'cancel' | 'silence';

export interface RunJournal {
  /**
   * Runs `effect` unless its result is recorded, and returns the recorded result. `effect` must not
   * throw.
   */
  record<T extends Json>(entry: JournalEntry, effect: () => Promise<T>): Promise<T>;
  /**
   * Waits for a message of `topic` and consumes it. Waits at most `seconds`, counted from the first
   * execution. Returns and records whether a message came.
   */
  receive(topic: Topic, seconds: number): Promise<boolean>;
  /**
   * Whether a cancel was ever sent. The answer is not recorded, so call it only inside an effect.
   */
  wasCancelSent(): Promise<boolean>;
  /** Aborted when this execution must stop. */
  readonly stopSignal: AbortSignal;
  /**
   * Resolves when the code requests another entry than the recorded one. The run can then never
   * continue.
   */
  readonly divergence: Promise<Error>;
}

export const neverSettle = (): Promise<never> => new Promise(() => {});

/** The journal's store did not answer; the call may be retried. */
export class JournalUnavailable extends Error {
  override name = 'JournalUnavailable';
}
