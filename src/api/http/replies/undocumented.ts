/**
 * Finds problems that a route answers but does not document. Clients rely on the documented list.
 */
import type { FastifyRequest } from 'fastify';
import type { ErrorCode } from '../../../contract/errors/errors.ts';
import { documentedProblems } from '../../../contract/openapi/problems.ts';

/** Only logs the problem; the caller still gets it. */
export function logUndocumented(
  { operation, correlation_id, log }: FastifyRequest,
  { code }: { code: ErrorCode },
): void {
  if (operation === null || documentedProblems(operation)?.has(code) !== false) return;
  log.error(
    { operation, undocumented_code: code, correlation_id },
    'a route answered a problem that it does not document',
  );
}
