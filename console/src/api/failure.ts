/** Turns whatever a call threw into what a person can use: what happened, why, what to do, and the id to quote. */
import { filledRemedy, RequestRefused, ServerUnreachable } from '../../../src/contract/client.ts';
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

/** Where the server names no time. */
const usualPauseSeconds = 5;
/** However soon the server would hear it: a page asks a dozen questions. */
const leastPauseSeconds = 1;

/** After how long the same question may be answered; null where it was refused for good. */
export function askAgainSeconds(error: unknown): number | null {
  const problem = problemOf(error);
  if (!problem) return error instanceof ServerUnreachable ? usualPauseSeconds : null;
  if (problem.retry_after_seconds !== undefined) return Math.max(leastPauseSeconds, problem.retry_after_seconds);
  return problem.status === 429 || problem.status >= 500 ? usualPauseSeconds : null;
}

/** How browsers and the bundler say that a page of the console did not come. */
const isPartOfConsole = /preload CSS|dynamically imported module|module script failed/i;

export function failureOf(error: unknown): Failure {
  const problem = problemOf(error);
  if (problem) {
    return {
      title: problem.title,
      detail: problem.detail,
      remedy: filledRemedy(
        remedies[problem.code] ?? 'Try again; if it stays, report it with the correlation id.',
        problem,
      ),
      code: problem.code,
      owner_layer: problem.owner_layer,
      correlation_id: problem.correlation_id,
      errors: problem.errors ?? [],
    };
  }
  const words = error instanceof Error ? error.message : String(error);
  const unfetched = isPartOfConsole.test(words);
  const unreachable = unfetched || error instanceof ServerUnreachable;
  return {
    title: unreachable ? 'The server does not answer' : 'The console made a mistake',
    detail: unfetched ? 'This page is fetched when it is first opened, and could not be.' : words,
    remedy: unfetched
      ? 'Check that the server runs, then try again; the pages that were open before go on as they are.'
      : unreachable
        ? 'Check that the server runs and that this page can reach it. The console tries again by itself.'
        : 'Reload the page; if it stays, report it with the words above.',
    code: null,
    owner_layer: unreachable ? 'transport' : null,
    correlation_id: null,
    errors: [],
  };
}
