/** Renders a problem of the catalogue for the wire. */
import { type ApiProblem, type ErrorEntry, errorCatalogue } from './errors.ts';
import type { Problem } from './problem.ts';

export const errorPagePath = '/docs/errors';

export function problemBody(problem: ApiProblem, correlation_id: string): Problem {
  const entry: ErrorEntry = errorCatalogue[problem.code];
  return {
    type: `${errorPagePath}#${problem.code}`,
    title: entry.title,
    status: entry.status,
    code: problem.code,
    owner_layer: entry.owner_layer,
    ...(entry.detail_layer && { detail_layer: entry.detail_layer }),
    detail: problem.extras.detail ?? entry.cause,
    correlation_id,
    ...(problem.extras.retry_after_seconds !== undefined && {
      retry_after_seconds: problem.extras.retry_after_seconds,
    }),
    ...(problem.extras.deadline_at && { deadline_at: problem.extras.deadline_at }),
    ...(problem.extras.acknowledged_seq !== undefined && { acknowledged_seq: problem.extras.acknowledged_seq }),
    ...(problem.extras.heartbeat_interval_seconds !== undefined && {
      heartbeat_interval_seconds: problem.extras.heartbeat_interval_seconds,
    }),
    ...(problem.extras.errors && { errors: problem.extras.errors }),
  };
}
