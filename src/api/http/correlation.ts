/**
 * Reads the correlation id of a request from `X-Correlation-Id` or `traceparent`, or makes a new
 * one.
 */
import type { FastifyRequest } from 'fastify';
import { type CorrelationId, newCorrelationId } from '../../base/ids.ts';
import { parseTraceparent } from '../../base/telemetry/trace.ts';

const acceptable = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

export function correlationOf(request: FastifyRequest): CorrelationId {
  const header = request.headers['x-correlation-id'];
  if (typeof header === 'string' && acceptable.test(header)) return header as CorrelationId;
  const parent = parseTraceparent(request.headers.traceparent);
  return parent ? (parent.trace_id as CorrelationId) : newCorrelationId();
}
