/**
 * What an adapter gives to one execution of a run: a place to record answers in order, and messages to wait for.
 * All behaviour an operation sees (retries, cancel, waits) is built on these calls, so both adapters behave alike.
 *
 * An execution that lost its run (shutdown, crash, another replica took over) must neither go on nor end: there, every
 * call never settles. The promise is garbage once nobody refers to it.
 */
import type { Json } from './engine.ts';

export interface JournalEntry {
  step: string;
  try: number;
}

/** Messages are only signals; facts are read by the checks and steps that they cause. */
export type Topic = 'wake' | 'cancel' | 'silence';

export interface RunJournal {
  /** Runs `effect` unless its answer is recorded already; answers what was recorded. `effect` does not throw. */
  record<T extends Json>(entry: JournalEntry, effect: () => Promise<T>): Promise<T>;
  /** Consumes one message of `topic`, waiting at most `seconds` since the first execution came here. Recorded. */
  receive(topic: Topic, seconds: number): Promise<boolean>;
  /** Whether cancel was ever sent. Not recorded, so it is asked only inside an effect. */
  cancelSent(): Promise<boolean>;
  /** Fires when this execution must stand still. */
  readonly stopped: AbortSignal;
  /** Settles when the code asks for other entries than the ones recorded: this run can never go on. */
  readonly diverged: Promise<Error>;
}

export const never = (): Promise<never> => new Promise(() => {});

/** The journal's own store did not answer: what was asked may be asked again. */
export class JournalUnavailable extends Error {
  override name = 'JournalUnavailable';
}
