/**
 * Durable execution: the port that operations are written against. An adapter records the result of
 * each step, so an operation that is killed continues at its last recorded step, on any replica.
 * The engine knows nothing about machines.
 *
 * An operation relies on this contract:
 * - a step with a recorded result never runs again; an interrupted step does, so steps must be
 *   idempotent;
 * - between steps an operation is a pure function of its input and the results so far;
 * - every wait reacts to `cancel` at once by throwing `OperationCancelled`, unless it is shielded.
 */
import type { WorkflowId } from '../base/ids.ts';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };

/** The result of a step. Most steps return nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions without a result have type void
export type StepAnswer = Json | void;

/**
 * How often a step is tried, and how long the engine waits between tries. The pause starts at
 * `base_seconds` and doubles up to `max_seconds`, with jitter.
 */
export interface RetryPolicy {
  tries: number;
  base_seconds: number;
  max_seconds: number;
}

export const singleTry: RetryPolicy = { tries: 1, base_seconds: 0, max_seconds: 0 };

export interface StepCall {
  /** 1 for the first try. */
  try: number;
  /**
   * The name of the step, the same for all retries and restarts. Use it as the key for client
   * tokens and for transitions that must happen once. A repeated name gets an ordinal
   * (`inspect#2`).
   */
  step: string;
}

export interface OperationContext {
  readonly workflow_id: WorkflowId;
  /** The number of this run of the operation. A retry by an operator starts the next run. */
  readonly attempt: number;
  /**
   * Runs `run` and records its result. A `retryable` error is tried again according to `policy`.
   */
  step<T extends StepAnswer>(name: string, run: (call: StepCall) => Promise<T>, policy?: RetryPolicy): Promise<T>;
  /** Sleeps durably: after a restart, only for the remaining time. */
  sleep(seconds: number): Promise<void>;
  /**
   * Calls `check` now, at every wake and at least every `poll_seconds`, until it returns a value.
   * Returns undefined if `until` passes first. Each result is recorded. A retryable error counts as
   * no value yet; a final error fails the step.
   */
  waitFor<T extends Json>(
    name: string,
    check: () => Promise<T | undefined>,
    options: { until: Date; poll_seconds: number; shielded?: boolean },
  ): Promise<T | undefined>;
  /** Publishes progress. If that fails, the operation continues. */
  emit(progress: Json): Promise<void>;
  /**
   * Whether the operation was cancelled. Once this has returned true outside of a step, cancel is
   * no longer thrown.
   */
  isCancelled(): Promise<boolean>;
}

export interface OperationDefinition<Params extends Json = Json> {
  /** The name of the operation on the wire, in metrics and in file names, as `noun-verb`. */
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

/** An expected error inside a step. If it is `retryable`, the step is tried again by its policy. */
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

/** Thrown when a step has used up its tries, or its error was final. */
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
   * Called before a run executes on this replica, at its start and at every recovery. Repeated
   * until it does not throw; until then the run executes no step on this replica.
   */
  executing(run: OperationRun): Promise<void>;
  /** `waiting` is set for a `waitFor`, which is reported once and not at every check. */
  stepStarted(run: OperationRun, step: string, tryNumber: number, waiting?: { waiting_until: Date }): Promise<void>;
  stepEnded(
    run: OperationRun,
    step: string,
    end: {
      status: 'done' | 'failed' | 'retrying';
      tries: number;
      error?: { code: string; owner_layer: string; message: string };
      retry_at?: Date;
    },
  ): Promise<void>;
  emitted(run: OperationRun, progress: Json): Promise<void>;
  /**
   * Called with the time for which the run could not continue because the store was unavailable.
   */
  waitedForStore?(run: OperationRun, wait: { step: string | null; seconds: number }): Promise<void>;
  /** Called at least once, however often replicas crash. Repeated until it does not throw. */
  ended(run: OperationRun, outcome: RunOutcome): Promise<void>;
}

export interface Engine {
  register(definition: OperationDefinition): void;
  /**
   * The operations that this replica can run. Replicas of different versions may differ in them.
   */
  registered(): Pick<OperationDefinition, 'kind' | 'revision'>[];
  launch(): Promise<void>;
  /** Idempotent per (workflow_id, attempt): starting twice, even on two replicas, runs once. */
  start(run: OperationRun): Promise<void>;
  /**
   * Makes the run's current wait check again. If the run does not wait now, its next wait gets the
   * wake.
   */
  wake(workflow_id: WorkflowId, attempt: number): Promise<void>;
  /** Returns whether the run exists. A run that was not started yet does not exist. */
  cancel(workflow_id: WorkflowId, attempt: number): Promise<boolean>;
  /** The ids of all executors with unfinished runs, whether they are dead or alive. */
  executorsWithRuns(): Promise<string[]>;
  /** Takes over the unfinished runs of dead executors. Returns the number of runs. */
  recover(deadExecutorIds: string[]): Promise<number>;
  /**
   * Deletes the records of runs that ended longer ago than this. Such a run must not be started
   * again, because it would run a second time. Returns the number of runs.
   */
  collectFinished(olderThanSeconds: number): Promise<number>;
  shutdown(): Promise<void>;
}
