/** Builds the trace span of a request, and collects the ids for the span and the log line. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../base/clock.ts';
import { idFieldOf, type KnownIds } from '../../base/ids.ts';
import { newSpanId, parseTraceparent, type Span, traceIdOf, traceparentOf } from '../../base/telemetry/trace.ts';
import { type ProtocolOperation, protocolPath, protocolRoutes } from '../../contract/compat/routes.ts';
import { type OperationName, routes } from '../../contract/routes.ts';

/**
 * A `traceparent` decides whether its request is traced. Without one, only people's requests are:
 * agents repeat the same calls every few seconds.
 */
export function isTraced(request: FastifyRequest): boolean {
  const parent = parseTraceparent(request.headers.traceparent);
  return request.operation !== null && (parent ? parent.sampled : request.person !== null);
}

/** Returns the `traceparent` header that names this request's span to the caller. */
export function beginSpan(request: FastifyRequest): string {
  request.span_id = newSpanId();
  const sampled = parseTraceparent(request.headers.traceparent)?.sampled ?? true;
  return traceparentOf({ trace_id: traceIdOf(request.correlation_id), span_id: request.span_id, sampled });
}

/** The prefix of an id in the address shows its kind. */
function idInAddress(request: FastifyRequest): KnownIds {
  const { id } = (request.params ?? {}) as { id?: unknown };
  const field = typeof id === 'string' ? idFieldOf(id) : undefined;
  return field ? { [field]: id } : {};
}

const withoutEmpty = (ids: KnownIds): KnownIds => Object.fromEntries(Object.entries(ids).filter(([, id]) => id));

/** The known ids of the caller, of the address and of the answer. */
export function idsOfRequest(request: FastifyRequest): KnownIds {
  const { node_id, node_instance_id, allocation_id } = request.agent_session ?? {};
  return {
    ...withoutEmpty({ node_id, node_instance_id, allocation_id } as KnownIds),
    // In a foreign protocol, the id in the address is the client's own name for its node.
    ...(request.operation !== null && request.operation in protocolRoutes ? {} : idInAddress(request)),
    ...withoutEmpty(request.touched ?? {}),
    correlation_id: request.correlation_id,
  };
}

function routeOf(operation: FastifyRequest['operation']): string | undefined {
  if (operation === null) return undefined;
  return operation in protocolRoutes
    ? protocolPath(protocolRoutes[operation as ProtocolOperation])
    : routes[operation as OperationName].path;
}

export function spanOf(request: FastifyRequest, reply: FastifyReply, ids: KnownIds, clock: Clock): Span {
  const end_ms = clock.nowMs();
  const parent = parseTraceparent(request.headers.traceparent);
  const trace_id = traceIdOf(request.correlation_id);
  return {
    trace_id,
    span_id: request.span_id,
    // The correlation id names the trace. A traceparent of another trace is not our parent.
    parent_span_id: parent?.trace_id === trace_id ? parent.span_id : null,
    name: request.operation ?? request.method,
    kind: 'server',
    start_ms: end_ms - reply.elapsedTime,
    end_ms,
    attributes: {
      ...ids,
      'http.request.method': request.method,
      'http.route': routeOf(request.operation),
      'http.response.status_code': reply.statusCode,
      actor: request.person?.name,
    },
    error: reply.statusCode >= 500 ? `answered ${reply.statusCode}` : null,
  };
}
