/**
 * Serves the foreign protocols under `/compat/{protocol}`, with or without a join token in the
 * address. Errors have the protocol's own shape. Calls that we do not support get 404.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Protocol, type ProtocolRoute, protocolOf, protocols } from '../../contract/compat/protocol.ts';
import { type ProtocolOperation, protocolRoutes } from '../../contract/compat/routes.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { shownPathOf } from '../http/addresses.ts';
import { checkOrigin } from '../http/auth.ts';
import { createRateLimitedNotices } from '../http/rate-limited-notices.ts';
import { dropBody } from '../http/refused-action.ts';
import { countsAsRefused, problemOf } from '../http/replies/problem-reply.ts';
import { logUndocumented } from '../http/replies/undocumented.ts';
import { compileCheck } from '../http/validation.ts';
import { markIdentified } from '../limits/held/connections.ts';
import type { ApiServices } from '../services.ts';
import { type Admission, admit } from './admit.ts';
import { agentfieldHandlers } from './agentfield.ts';
import type { ProtocolCall, ProtocolHandler, ProtocolServices } from './calls.ts';
import { createJoinGrants } from './join-grants.ts';
import { moleculeHandlers } from './molecule.ts';
import { createPaces } from './paces.ts';
import { createFormerAddressProbe } from './restart.ts';

const bodyLimitBytes = 256 * 1024;
const handlers: Record<ProtocolOperation, ProtocolHandler> = { ...agentfieldHandlers, ...moleculeHandlers };

type RecordRefusal = (request: FastifyRequest, problem: ApiProblem) => Promise<void>;

/** Sends one sentence under `error`, as the protocols' own servers do, and our error code. */
export function sendProtocolError(error: unknown, request: FastifyRequest, reply: FastifyReply): ApiProblem {
  const { problem, body } = problemOf(error, request);
  logUndocumented(request, problem);
  if (body.retry_after_seconds !== undefined) reply.header('retry-after', Math.ceil(body.retry_after_seconds));
  reply
    .status(body.status)
    .header('content-type', 'application/json; charset=utf-8')
    .send({ error: body.detail, code: body.code });
  return problem;
}

export const isProtocolCall = (url: string): boolean => protocolOf(url) !== undefined;

function callOf(request: FastifyRequest, reply: FastifyReply, { session, grant }: Admission): ProtocolCall {
  const { id = '' } = (request.params ?? {}) as { id?: string };
  return {
    id,
    body: (request.body ?? {}) as Record<string, unknown>,
    correlation_id: request.correlation_id,
    session,
    grant() {
      if (!grant) throw new Error(`${request.operation} has no join token`);
      return grant;
    },
    request,
    reply,
  };
}

/**
 * AgentField machines share the join token of their pool. Their calls are rate limited per machine,
 * after the handler has looked it up.
 */
const isMachineCall = ({ protocol, method, path }: ProtocolRoute): boolean =>
  protocol === 'agentfield' && method !== 'GET' && path.includes('{id}');

function addRoute(scope: FastifyInstance, name: ProtocolOperation, services: ProtocolServices): void {
  const route: ProtocolRoute = protocolRoutes[name];
  const checkBody = route.body && compileCheck(route.body, 'body');
  const admissions = new WeakMap<FastifyRequest, Admission>();
  scope.route({
    method: route.method,
    url: route.path.replace('{id}', ':id'),
    bodyLimit: route.body_limit_bytes ?? bodyLimitBytes,
    exposeHeadRoute: false,
    onRequest: async (request) => {
      request.operation = name;
      checkOrigin(request, services);
      const admission = await admit(request, route, services);
      admissions.set(request, admission);
      markIdentified(request.raw.socket);
      if (admission.session) services.rates.admitKnown('instance', admission.session.node_instance_id, name, request);
      else if (admission.grant && !isMachineCall(route))
        services.rates.admitKnown('join_token', admission.grant.token_id, name, request);
    },
    preHandler: async (request) => {
      const isMissing = request.body === undefined || request.body === null;
      if (checkBody && !(route.body_optional && isMissing)) request.body = checkBody(request.body ?? null);
    },
    handler: async (request, reply) => {
      const admission = admissions.get(request);
      if (!admission) throw new Error(`${name} was not admitted`);
      reply.status(route.success);
      return handlers[name](callOf(request, reply, admission), services);
    },
  });
}

function serveProtocol(
  scope: FastifyInstance,
  protocol: Protocol,
  services: ProtocolServices,
  recordRefusal: RecordRefusal,
): void {
  scope.setErrorHandler(async (error, request, reply) => {
    dropBody(request);
    if (countsAsRefused(error)) await services.rates.delayRefusal(request, reply);
    const problem = sendProtocolError(error, request, reply);
    await recordRefusal(request, problem).catch((recordError) =>
      request.log.warn({ error: recordError }, 'could not record a refusal'),
    );
    return reply;
  });
  for (const name of Object.keys(protocolRoutes) as ProtocolOperation[])
    if (protocolRoutes[name].protocol === protocol) addRoute(scope, name, services);
  const refuse = async (request: FastifyRequest) => {
    throw new ApiProblem('not_found', `There is no route ${request.method} ${shownPathOf(request)}.`);
  };
  // Refuse before reading the body.
  for (const url of ['', '/*']) scope.all(url, { onRequest: refuse }, refuse);
}

export async function serveProtocols(
  app: FastifyInstance,
  api: ApiServices,
  recordRefusal: RecordRefusal,
): Promise<void> {
  const grants = createJoinGrants(api.db, api.tail);
  const services: ProtocolServices = {
    ...api,
    grants,
    probeFormerAddress: createFormerAddressProbe(api),
    paces: createPaces(api.clock),
    notices: createRateLimitedNotices(api.clock),
  };
  for (const protocol of protocols)
    await app.register(async (scope) => serveProtocol(scope, protocol, services, recordRefusal), {
      prefix: `/compat/${protocol}`,
    });
}
