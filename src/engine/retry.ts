/** What an error inside a step means, and when the step is tried again. Pure: randomness is handed in. */
import { OperationCancelled, type RetryPolicy, StepError, StepFailed } from './engine.ts';

/** For steps that do not say otherwise: rides out a restart of what they talk to, then gives up. */
export const usualRetry: RetryPolicy = { tries: 5, base_seconds: 1, max_seconds: 30 };

/** An error as data: it is recorded and read back by another process, so it cannot stay an object of a class. */
export type Problem = { code: string; owner_layer: string; message: string };

export type Classified =
  | { kind: 'cancelled' }
  | { kind: 'final'; problem: Problem }
  | { kind: 'retryable'; problem: Problem };

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** An error nobody classified is ours to answer for, and worth another try: most are an upstream's bad moment. */
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

/** Doubles from the base up to the maximum; the jitter takes up to half off, so that many runs do not knock at once. */
export function retryDelaySeconds(policy: RetryPolicy, tryNumber: number, random: () => number): number {
  const full = Math.min(policy.base_seconds * 2 ** (tryNumber - 1), policy.max_seconds);
  return full * (1 - random() / 2);
}
