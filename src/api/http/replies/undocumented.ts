/**
 * Logs problems that a route returns but does not document, because clients rely on the documented
 * list.
 */
import type { FastifyRequest } from 'fastify';
import type { ErrorCode } from '../../../contract/errors/errors.ts';
import { documentedProblems } from '../../../contract/openapi/problems.ts';

/** The caller still gets the problem. */
export function logUndocumented(
  { operation, correlation_id, log }: FastifyRequest,
  { code }: { code: ErrorCode },
): void {
  if (operation === null || documentedProblems(operation)?.has(code) !== false) return;
  log.error(
    { operation, undocumented_code: code, correlation_id },
    'a route returned a problem that it does not document',
  );
}
