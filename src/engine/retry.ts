/** Classifies the errors of a step, and computes when the step is tried again. */
import { OperationCancelled, type RetryPolicy, StepError, StepFailed } from './engine.ts';

/** The default policy, which retries long enough to survive a restart of the upstream. */
export const defaultRetry: RetryPolicy = { tries: 5, base_seconds: 1, max_seconds: 30 };

/** An error as plain data, so that another process can read it from the journal. */
export type Problem = { code: string; owner_layer: string; message: string };

export type ErrorClass =
  | { kind: 'cancelled' }
  | { kind: 'final'; problem: Problem }
  | { kind: 'retryable'; problem: Problem };

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The problem for an unclassified error. The control plane owns such errors. */
export const unknownProblem = (error: unknown): Problem => ({
  code: 'internal_error',
  owner_layer: 'control_plane',
  message: messageOf(error),
});

const problemOf = (error: StepError | StepFailed): Problem => ({
  code: error.code,
  owner_layer: error.owner_layer,
  message: error.message,
});

export function classify(error: unknown): ErrorClass {
  if (error instanceof OperationCancelled) return { kind: 'cancelled' };
  if (error instanceof StepFailed) return { kind: 'final', problem: problemOf(error) };
  if (error instanceof StepError) {
    return { kind: error.retryable ? 'retryable' : 'final', problem: problemOf(error) };
  }
  // Most unclassified errors are temporary faults of an upstream.
  return { kind: 'retryable', problem: unknownProblem(error) };
}

/**
 * The pause doubles from the base up to the maximum. Jitter reduces it by up to half, so that runs
 * do not all retry at the same time.
 */
export function retryDelaySeconds(policy: RetryPolicy, tryNumber: number, random: () => number): number {
  const full = Math.min(policy.base_seconds * 2 ** (tryNumber - 1), policy.max_seconds);
  return full * (1 - random() / 2);
}
