/**
 * Classifies errors of a step, and computes when it is tried again. Pure: randomness is an
 * argument.
 */
import { OperationCancelled, type RetryPolicy, StepError, StepFailed } from './engine.ts';

/** The default policy: survives a restart of the other side, then gives up. */
export const defaultRetry: RetryPolicy = { tries: 5, base_seconds: 1, max_seconds: 30 };

/** An error as plain data, because another process reads it back from the record. */
export type Problem = { code: string; owner_layer: string; message: string };

export type Classified =
  | { kind: 'cancelled' }
  | { kind: 'final'; problem: Problem }
  | { kind: 'retryable'; problem: Problem };

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** An unclassified error is ours and is retried: most are a passing fault of an upstream. */
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

export function classify(error: unknown): Classified {
  if (error instanceof OperationCancelled) return { kind: 'cancelled' };
  if (error instanceof StepFailed) return { kind: 'final', problem: problemOf(error) };
  if (error instanceof StepError) {
    return { kind: error.retryable ? 'retryable' : 'final', problem: problemOf(error) };
  }
  return { kind: 'retryable', problem: unknownProblem(error) };
}

/**
 * Doubles from the base up to the maximum. Jitter takes off up to half, so that runs do not retry
 * at once.
 */
export function retryDelaySeconds(policy: RetryPolicy, tryNumber: number, random: () => number): number {
  const full = Math.min(policy.base_seconds * 2 ** (tryNumber - 1), policy.max_seconds);
  return full * (1 - random() / 2);
}
