/**
 * Answers requests that never reach a route (bytes that are not HTTP, addresses that do not decode)
 * with a problem like any other.
 */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { newCorrelationId } from '../../base/ids.ts';
import { ApiProblem, type ErrorCode } from '../../contract/errors/errors.ts';
import { problemBody } from '../../contract/errors/problem-body.ts';
import { isProtocolCall, sendProtocolError } from '../compat/serve.ts';
import type { ApiSettings } from '../services.ts';
import { correlationOf } from './correlation.ts';
import { sendProblem } from './replies/problem-reply.ts';
import { commonHeaders, hstsHeader, isNamedHost } from './replies/reply-headers.ts';

const parserCodes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Answers and closes the connection, which is unusable after bytes that were not HTTP. */
export function answerBrokenBytes(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem = problemBody(new ApiProblem(parserCodes[error.code ?? ''] ?? 'malformed_request'), newCorrelationId());
  const body = JSON.stringify(problem);
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}`,
      'content-type: application/problem+json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      `x-correlation-id: ${problem.correlation_id}`,
      ...Object.entries(commonHeaders).map(([name, value]) => `${name}: ${value}`),
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}

/**
 * Answers 408 and destroys the socket: merely ending it would wait for clients that never close.
 */
export function answerLate(socket: Socket): void {
  answerBrokenBytes(Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket);
  socket.destroySoon();
}

/** Fastify refuses these addresses before any hook runs, so the headers are set here. */
export const answerBadAddress =
  ({ secure_cookies }: Pick<ApiSettings, 'secure_cookies'>) =>
  (error: Error, request: FastifyRequest, reply: FastifyReply): void => {
    request.correlation_id = correlationOf(request);
    reply.header('x-correlation-id', request.correlation_id);
    reply.headers(commonHeaders);
    if (secure_cookies && isNamedHost(request)) reply.headers(hstsHeader);
    (isProtocolCall(request.url) ? sendProtocolError : sendProblem)(error, request, reply);
  };
