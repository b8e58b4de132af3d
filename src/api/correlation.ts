/** The correlation id is born at the edge: taken from `traceparent` or `X-Correlation-Id`, else made. */
import type { FastifyRequest } from 'fastify';
import { type CorrelationId, newCorrelationId } from '../base/ids.ts';

const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;
const acceptable = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const noTrace = '0'.repeat(32);

export function correlationOf(request: FastifyRequest): CorrelationId {
  const given = request.headers['x-correlation-id'];
  if (typeof given === 'string' && acceptable.test(given)) return given as CorrelationId;
  const trace = traceparent.exec(String(request.headers.traceparent ?? ''))?.[1];
  return trace && trace !== noTrace ? (trace as CorrelationId) : newCorrelationId();
}
