/**
 * Turns every error into a problem of the catalogue. An unexpected error is logged in full and
 * answered as `internal_error`.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem, type ErrorCode, errorCatalogue } from '../../../contract/errors/errors.ts';
import type { Problem } from '../../../contract/errors/problem.ts';
import { problemBody } from '../../../contract/errors/problem-body.ts';
import { StoreUnavailable } from '../../../store/pg/database.ts';
import { logUndocumented } from './undocumented.ts';

/** Fastify's own errors, by code. */
const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'malformed_json',
  FST_ERR_CTP_INVALID_JSON_BODY: 'malformed_json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_request',
  FST_ERR_BAD_URL: 'malformed_request',
  FST_ERR_MAX_PARAM_LENGTH: 'invalid_request',
  FST_ERR_ASYNC_CONSTRAINT: 'not_found',
};

export const problemType = 'application/problem+json; charset=utf-8';
const storeRetrySeconds = 2;

function toProblem(error: unknown): ApiProblem | undefined {
  if (error instanceof ApiProblem) return error;
  if (error instanceof StoreUnavailable)
    return new ApiProblem('store_unavailable', { retry_after_seconds: storeRetrySeconds });
  if (!(error instanceof Error)) return undefined;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (frameworkCodes[code]) return new ApiProblem(frameworkCodes[code]);
  if (error instanceof SyntaxError) return new ApiProblem('malformed_json');
  const status = 'statusCode' in error && typeof error.statusCode === 'number' ? error.statusCode : 500;
  return status >= 400 && status < 500 ? new ApiProblem('invalid_request', error.message) : undefined;
}

/**
 * Whether a refusal counts against its caller. It does not if the fault is ours, or if the caller
 * only came too early and got a time to retry. A 429 counts, so that a flood that ignores it is
 * slowed down.
 */
export function countsAsRefused(error: unknown): boolean {
  const problem = toProblem(error);
  if (!problem) return false;
  const { status } = errorCatalogue[problem.code];
  return status === 429 || (status < 500 && problem.extras.retry_after_seconds === undefined);
}

/** Logs an unexpected error in full; the caller only gets `internal_error`. */
export function problemOf(
  error: unknown,
  request: Pick<FastifyRequest, 'correlation_id' | 'operation'> & { log: Pick<FastifyRequest['log'], 'error'> },
): { problem: ApiProblem; body: Problem } {
  const expected = toProblem(error);
  const { correlation_id, operation } = request;
  if (!expected) request.log.error({ error, correlation_id, operation }, 'a request failed unexpectedly');
  const problem = expected ?? new ApiProblem('internal_error');
  return { problem, body: problemBody(problem, correlation_id) };
}

export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): ApiProblem {
  const { problem, body } = problemOf(error, request);
  logUndocumented(request, problem);
  if (body.retry_after_seconds !== undefined) reply.header('retry-after', Math.ceil(body.retry_after_seconds));
  if (body.status === 401) reply.header('www-authenticate', 'Bearer realm="slipway"');
  reply.status(body.status).header('content-type', problemType).serializer(JSON.stringify).send(body);
  return problem;
}
