/**
 * Durable execution, as a port of five methods that operations are written against. An adapter remembers what each step
 * returned, so that an operation killed anywhere goes on where it stood, on any replica. The engine knows no machines.
 *
 * The contract an operation relies on:
 * - a step whose result was recorded never runs again; one that was cut off runs again, so a step is idempotent;
 * - between steps an operation is a pure function of its input and of the results so far;
 * - every wait hears `cancel`: it throws `OperationCancelled` at once, unless the wait is shielded.
 */
import type { WorkflowId } from '../base/ids.ts';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };

/** What a step may return; most only do something. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing has type void, not undefined
export type StepAnswer = Json | void;

/** How often a step is tried and how long the engine waits in between (doubling, with jitter, up to the maximum). */
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
   * Stable over retries and restarts: the key for client tokens and for door calls that must happen once. A name that an
   * operation uses again gets its ordinal (`observe`, `observe#2`).
   */
  step: string;
}

export interface OperationContext {
  readonly workflow_id: WorkflowId;
  /** Which run of this operation this is; an operator's retry starts the next. */
  readonly attempt: number;
  /** Runs `run` and records what it returned. An error marked `retryable` is tried again as `policy` says. */
  step<T extends StepAnswer>(name: string, run: (call: StepCall) => Promise<T>, policy?: RetryPolicy): Promise<T>;
  /** Durable: a restart waits only for what is left. */
  sleep(seconds: number): Promise<void>;
  /**
   * Asks `check` now, at every wake and at least every `poll_seconds`, until it answers something other than undefined,
   * or until `until` has passed (then the answer is undefined). Each answer is recorded. A check that fails for now
   * counts as no answer yet; a final error fails the step.
   */
  waitFor<T extends Json>(
    name: string,
    check: () => Promise<T | undefined>,
    options: { until: Date; poll_seconds: number; shielded?: boolean },
  ): Promise<T | undefined>;
  /** Publishes progress. Its failure never stops the work. */
  emit(progress: Json): Promise<void>;
  /** Whether somebody asked to cancel this operation. Once it answered true, cancel is not thrown any more. */
  cancelled(): Promise<boolean>;
}

export interface OperationDefinition<Params extends Json = Json> {
  /** `noun-verb`; the same string is the operation's kind on the wire, in the metrics and in the code's file name. */
  kind: string;
  /** Operations already running finish on the revision they started with. */
  revision: number;
  run(context: OperationContext, params: Params): Promise<Json | undefined>;
}

/**
 * Thrown once, by the first wait or step after cancel. An operation may catch it to tidy up with steps and waits, which
 * work as before, and then throws it on.
 */
export class OperationCancelled extends Error {
  override name = 'OperationCancelled';
  constructor() {
    super('the operation was asked to cancel');
  }
}

/** An operating error inside a step; `retryable` ones are tried again by the step's policy. */
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

/** A step's tries are used up, or its error was final. Carries the step's name, so that a reason can name it. */
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

/** What the engine tells its owner. All are called on the replica that executes; each may be called again after a crash. */
export interface EngineListener {
  /** Before anything of this run executes here, at the start and at every recovery. Throwing keeps the run from executing here. */
  executing(run: OperationRun): Promise<void>;
  /** `waiting` is given for a `waitFor`, which is announced once, not at every check. */
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
  /** The run stood still for so long because the store was away. */
  waitedForStore?(run: OperationRun, waited: { step: string | null; seconds: number }): Promise<void>;
  /** Durable: called inside a recorded step, so that it happens at least once however often the replica dies. */
  ended(run: OperationRun, outcome: RunOutcome): Promise<void>;
}

export interface Engine {
  register(definition: OperationDefinition): void;
  /** What it can run: of replicas of different versions each starts what it has, and leaves the rest to the others. */
  registered(): Pick<OperationDefinition, 'kind' | 'revision'>[];
  launch(): Promise<void>;
  /** Idempotent per (workflow_id, attempt): starting twice, even on two replicas, runs once. */
  start(run: OperationRun): Promise<void>;
  /** Makes the run's current wait ask again. Harmless when nothing waits; never lost when a wait comes later. */
  wake(workflow_id: WorkflowId, attempt: number): Promise<void>;
  /** Answers whether there is such a run; false also when it was not started yet, so start first and cancel then. */
  cancel(workflow_id: WorkflowId, attempt: number): Promise<boolean>;
  /** The executors, dead or alive, whose runs are not finished. */
  executorsAtWork(): Promise<string[]>;
  /** Takes over the unfinished runs of executors that are dead. Returns how many. */
  recover(deadExecutorIds: string[]): Promise<number>;
  /** Deletes the engine's records of runs that ended that long ago; never start those again. Returns how many. */
  collectFinished(olderThanSeconds: number): Promise<number>;
  shutdown(): Promise<void>;
}
