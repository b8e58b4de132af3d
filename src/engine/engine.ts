/**
 * Durable execution: the port that operations are written against. An adapter records the result of
 * each step, so an operation that is killed anywhere continues where it stood, on any replica. The
 * engine knows no machines.
 *
 * An operation relies on this contract:
 * - a step with a recorded result never runs again; an interrupted one does, so steps are
 * idempotent;
 * - between steps an operation is a pure function of its input and the results so far;
 * - every wait reacts to `cancel` at once by throwing `OperationCancelled`, unless it is shielded.
 */
import type { WorkflowId } from '../base/ids.ts';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };

/** The result of a step; most return nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions without a result have type void
export type StepAnswer = Json | void;

/**
 * How often a step is tried, and how long the engine waits in between: doubling, with jitter, up to
 * the maximum.
 */
export interface RetryPolicy {
  tries: number;
  base_seconds: number;
  max_seconds: number;
}

export const onceOnly: RetryPolicy = { tries: 1, base_seconds: 0, max_seconds: 0 };

export interface StepCall {
  /** 1 for the first try. */
  try: number;
  /**
   * Stable over retries and restarts: the key for client tokens and for transitions that must
   * happen once. A repeated name gets an ordinal (`observe`, `observe#2`).
   */
  step: string;
}

export interface OperationContext {
  readonly workflow_id: WorkflowId;
  /** Which run of the operation this is; a retry by an operator starts the next. */
  readonly attempt: number;
  /**
   * Runs `run` and records its result. A `retryable` error is tried again according to `policy`.
   */
  step<T extends StepAnswer>(name: string, run: (call: StepCall) => Promise<T>, policy?: RetryPolicy): Promise<T>;
  /** Durable: after a restart it waits only for the remaining time. */
  sleep(seconds: number): Promise<void>;
  /**
   * Calls `check` now, at every wake and at least every `poll_seconds`, until it returns something
   * other than undefined or `until` has passed (the result is then undefined). Each result is
   * recorded. A retryable error counts as no result yet; a final one fails the step.
   */
  waitFor<T extends Json>(
    name: string,
    check: () => Promise<T | undefined>,
    options: { until: Date; poll_seconds: number; shielded?: boolean },
  ): Promise<T | undefined>;
  /** Publishes progress. A failure never stops the operation. */
  emit(progress: Json): Promise<void>;
  /**
   * Whether the operation was cancelled. Once this has returned true, cancel is no longer
   * thrown.
   */
  cancelled(): Promise<boolean>;
}

export interface OperationDefinition<Params extends Json = Json> {
  /** `noun-verb`; the operation's kind on the wire, in metrics and in file names. */
  kind: string;
  /** Running operations finish on the revision they started with. */
  revision: number;
  run(context: OperationContext, params: Params): Promise<Json | undefined>;
}

/**
 * Thrown once, by the first wait or step after cancel. An operation may catch it, clean up with
 * steps and waits as usual, and rethrow it.
 */
export class OperationCancelled extends Error {
  override name = 'OperationCancelled';
  constructor() {
    super('the operation was cancelled');
  }
}

/** An expected error inside a step; `retryable` ones are tried again by the step's policy. */
export class StepError extends Error {
  override name = 'StepError';
  readonly code: string;
  readonly owner_layer: string;
  readonly retryable: boolean;
  constructor(problem: { code: string; owner_layer: string; message: string; retryable: boolean }) {
    super(problem.message);
    this.code = problem.code;
    this.owner_layer = problem.owner_layer;
    this.retryable = problem.retryable;
  }
}

/** A step used up its tries, or its error was final. Carries the name of the step. */
export class StepFailed extends Error {
  override name = 'StepFailed';
  readonly step: string;
  readonly code: string;
  readonly owner_layer: string;
  readonly tries: number;
  constructor(failure: { step: string; code: string; owner_layer: string; message: string; tries: number }) {
    super(failure.message);
    this.step = failure.step;
    this.code = failure.code;
    this.owner_layer = failure.owner_layer;
    this.tries = failure.tries;
  }
}

export type RunOutcome =
  | { status: 'succeeded'; result: Json | undefined }
  | { status: 'cancelled' }
  | { status: 'failed'; error: { step: string | null; code: string; owner_layer: string; message: string } };

export interface OperationRun {
  workflow_id: WorkflowId;
  attempt: number;
  kind: string;
  revision: number;
  params: Json;
}

/**
 * Callbacks of the engine. All run on the executing replica, and each may be called again after a
 * crash.
 */
export interface EngineListener {
  /**
   * Called before a run executes here, at its start and at every recovery. If it throws, the run
   * does not execute here.
   */
  executing(run: OperationRun): Promise<void>;
  /** `waiting` is set for a `waitFor`, which is reported once, not at every check. */
  stepStarted(run: OperationRun, step: string, tryNumber: number, waiting?: { waiting_until: Date }): Promise<void>;
  stepEnded(
    run: OperationRun,
    step: string,
    ended: {
      status: 'done' | 'failed' | 'retrying';
      tries: number;
      error?: { code: string; owner_layer: string; message: string };
      retry_at?: Date;
    },
  ): Promise<void>;
  emitted(run: OperationRun, progress: Json): Promise<void>;
  /** The run stood still for this long because the store was unavailable. */
  waitedForStore?(run: OperationRun, waited: { step: string | null; seconds: number }): Promise<void>;
  /** Called inside a recorded step, so it happens at least once, however often the replica dies. */
  ended(run: OperationRun, outcome: RunOutcome): Promise<void>;
}

export interface Engine {
  register(definition: OperationDefinition): void;
  /** The operations it can run. Replicas of different versions each start what they have. */
  registered(): Pick<OperationDefinition, 'kind' | 'revision'>[];
  launch(): Promise<void>;
  /** Idempotent per (workflow_id, attempt): starting twice, even on two replicas, runs once. */
  start(run: OperationRun): Promise<void>;
  /**
   * Makes the run's current wait check again. Harmless if nothing waits; kept for the next wait.
   */
  wake(workflow_id: WorkflowId, attempt: number): Promise<void>;
  /** Returns whether the run exists. False also if it was not started yet, so start it first. */
  cancel(workflow_id: WorkflowId, attempt: number): Promise<boolean>;
  /** Executors, dead or alive, with unfinished runs. */
  executorsAtWork(): Promise<string[]>;
  /** Takes over the unfinished runs of dead executors. Returns how many. */
  recover(deadExecutorIds: string[]): Promise<number>;
  /**
   * Deletes the records of runs that ended that long ago, which must not be started again. Returns
   * how many.
   */
  collectFinished(olderThanSeconds: number): Promise<number>;
  shutdown(): Promise<void>;
}
