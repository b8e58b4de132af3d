/** Describes an error for a person, with its cause, the next step and the id to quote. */
import { fillRemedy, RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
import type { Problem } from '../../../src/contract/errors/problem.ts';
import { remedies } from './remedies.generated.ts';

export interface Failure {
  title: string;
  detail: string;
  remedy: string;
  code: string | null;
  owner_layer: string | null;
  correlation_id: string | null;
  errors: { path: string; message: string }[];
}

export const problemOf = (error: unknown): Problem | null => (error instanceof RequestRefused ? error.problem : null);

export const isSignedOut = (error: unknown): boolean => problemOf(error)?.status === 401;

export const isNotFound = (error: unknown): boolean => problemOf(error)?.status === 404;

/** Used when the server sends no Retry-After. */
const defaultPauseSeconds = 5;
/** A page sends a dozen requests at once, so the pause is never shorter than this. */
const minPauseSeconds = 1;

/** Returns after how many seconds to repeat the request, or null if a retry cannot succeed. */
export function retryAfterSeconds(error: unknown): number | null {
  const problem = problemOf(error);
  if (!problem) return error instanceof ServerUnreachable ? defaultPauseSeconds : null;
  if (problem.retry_after_seconds !== undefined) return Math.max(minPauseSeconds, problem.retry_after_seconds);
  return problem.status === 429 || problem.status >= 500 ? defaultPauseSeconds : null;
}

/** A page or dialog of the console, loaded on demand, that the browser could not load. */
export class PartNotLoaded extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'PartNotLoaded';
  }
}

export function failureOf(error: unknown): Failure {
  const problem = problemOf(error);
  if (problem) {
    return {
      title: problem.title,
      detail: problem.detail,
      remedy: fillRemedy(
        remedies[problem.code] ?? 'Try again. If it happens again, report it with the correlation id.',
        problem,
      ),
      code: problem.code,
      owner_layer: problem.owner_layer,
      correlation_id: problem.correlation_id,
      errors: problem.errors ?? [],
    };
  }
  const message = error instanceof Error ? error.message : String(error);
  const isPartMissing = error instanceof PartNotLoaded;
  const isUnreachable = isPartMissing || error instanceof ServerUnreachable;
  return {
    title: isUnreachable ? 'The server does not answer' : 'Internal error in the console',
    detail: isPartMissing ? 'This page loads when you first open it, and loading it failed.' : message,
    remedy: isPartMissing
      ? 'Check that the server runs, then try again. Pages that are already open keep working.'
      : isUnreachable
        ? 'Check that the server runs and that this page can reach it. The console retries by itself.'
        : 'Reload the page. If it happens again, report it with the message above.',
    code: null,
    owner_layer: isUnreachable ? 'transport' : null,
    correlation_id: null,
    errors: [],
  };
}
