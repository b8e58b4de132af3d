/** Creates the HTTP server. All routes run the same checks in the same order before a handler. */
import cookie from '@fastify/cookie';
import Fastify, { type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import { Type } from 'typebox';
import type { TlsPair } from '../base/network/tls-files.ts';
import { ApiProblem } from '../contract/errors/errors.ts';
import { strict } from '../contract/primitives.ts';
import { type RouteDeclaration, waitsForRestoration } from '../contract/route.ts';
import { type OperationName, routes } from '../contract/routes.ts';
import { asksForAgentStream, serveUpgrades } from './agent-stream/open-stream.ts';
import { rewriteUrl } from './compat/admit.ts';
import { serveProtocols } from './compat/serve.ts';
import { handlers } from './handlers.ts';
import { openBeatLane, replayBody } from './heartbeats/lane/beat-lane.ts';
import { answersHead, refuseUnrouted } from './http/addresses.ts';
import { authorize, checkOrigin } from './http/auth.ts';
import {
  checkContentType,
  jsonOnly,
  readTextBody,
  refuseUnwantedBody,
  setParsers,
  takesNoBody,
  typesReadBy,
} from './http/bodies/parsers.ts';
import { answerBadAddress, answerBrokenBytes, answerLate } from './http/broken-requests.ts';
import { changeOnce, idsIn } from './http/changes.ts';
import { correlationOf } from './http/correlation.ts';
import { dropBody } from './http/refused-action.ts';
import { countsAsRefused, sendProblem } from './http/replies/problem-reply.ts';
import { createRefusalRecorder } from './http/replies/refusals.ts';
import { commonHeaders, hstsHeader, isNamedHost } from './http/replies/reply-headers.ts';
import { beginSpan, idsOfRequest, isTraced, spanOf } from './http/request-span.ts';
import { isConsolePage, serveConsole, serveDocs } from './http/static-files.ts';
import { compileCheck, compileReply } from './http/validation.ts';
import { type BodyBudget, createBodyBudget } from './limits/held/body-budget.ts';
import { admitOnConnection } from './limits/held/connections.ts';
import { serve } from './limits/held/until-served.ts';
import { admitWrite, chargeServedRequest, withWriteCharges } from './limits/quotas/admit-write.ts';
import type { ApiServices, Call, Handler } from './services.ts';

const bodyLimitBytes = 256 * 1024;
/** The limit of routes without a body. They accept an empty object. */
const noBodyLimitBytes = 1024;
/** How long a whole request may take to arrive. A slower client would only hold a connection. */
const requestTimeoutMs = 60_000;
/** Node would refuse a request without Host; our own check does so with a problem. */
const serverOptions = { requireHostHeader: false, shouldUpgradeCallback: asksForAgentStream };
/** These calls wait for something to happen, so their duration says nothing about the server. */
const waitingCalls = new Set<string>(['stream-open', 'agent-stream', 'agent-task-next', 'node-logs']);
const emptyQuery = Type.Object({}, strict);

function callOf(request: FastifyRequest, reply: Call<OperationName>['reply']): Call<OperationName> {
  return {
    params: request.params as never,
    query: request.query as never,
    body: request.body as never,
    correlation_id: request.correlation_id,
    person() {
      if (!request.person) throw new Error(`${request.operation} has no person`);
      return request.person;
    },
    agent() {
      if (!request.agent_session) throw new Error(`${request.operation} has no agent`);
      return request.agent_session;
    },
    request,
    reply,
  };
}

function addRoute(app: FastifyInstance, name: OperationName, services: ApiServices, bodies: BodyBudget): void {
  const route: RouteDeclaration = routes[name];
  const handler = handlers[name] as Handler<OperationName>;
  const checkParams = route.params && compileCheck(route.params, 'path');
  const checkQuery = compileCheck(route.query ?? emptyQuery, 'query');
  const checkBody = route.body && compileCheck(route.body, 'body', 'invalid_request', route.refusals);
  const checkReply = route.reply && compileReply(route.reply);
  const maxBodyBytes = route.body_limit_bytes ?? (takesNoBody(route) ? noBodyLimitBytes : bodyLimitBytes);
  const servedRoute = { name, route, maxBodyBytes };
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    bodyLimit: maxBodyBytes,
    exposeHeadRoute: answersHead(route),
    ...(name === 'agent-heartbeat' && { preParsing: replayBody }),
    onRequest: async (request, reply) => {
      request.operation = name;
      checkOrigin(request, services);
      await authorize(request, route.access, services);
      admitOnConnection(request, name);
      checkContentType(request, route);
      services.rates.admit(request, name, route);
      services.overload.admitRead(name, request.query as Record<string, unknown>);
      services.overload.admitWork(route);
      if (waitsForRestoration(route) && services.restoration.isObserving()) throw new ApiProblem('restoration_open');
      admitWrite(request, reply, servedRoute, services);
      if (route.access.kind === 'body') bodies.admit(request, reply, maxBodyBytes);
      if (route.shares_log_intake) services.intake.admit(request, reply, maxBodyBytes);
    },
    preHandler: async (request) => {
      refuseUnwantedBody(request, route);
      readTextBody(request, route);
      if (checkParams) request.params = checkParams(request.params);
      request.query = checkQuery(request.query);
      if (checkBody && !(route.body_optional && request.body === undefined))
        request.body = checkBody(request.body ?? null);
    },
    handler: async (request, reply) => {
      reply.status(route.success);
      const work = async (requestServices: ApiServices) => {
        const answer = await handler(callOf(request, reply), requestServices);
        if (checkReply && !reply.sent) checkReply(answer);
        return answer;
      };
      const { person } = request;
      const charged = withWriteCharges(request, services);
      const answer = await serve(request, async () => {
        const result =
          person && route.method !== 'GET' && !route.reads_only
            ? await changeOnce(request, reply, person, charged, work)
            : await work(charged);
        chargeServedRequest(request, name, services);
        return result;
      });
      request.touched = idsIn(answer);
      if (reply.sent) return reply;
      if (answer === undefined) return reply.status(204).send();
      return answer;
    },
  });
}

export async function createApiServer(services: ApiServices, tls: TlsPair | null): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: services.log as never,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false },
    requestTimeout: requestTimeoutMs,
    rewriteUrl,
    clientErrorHandler: answerBrokenBytes,
    frameworkErrors: answerBadAddress(services.settings),
    ...(tls ? { https: { cert: tls.cert, key: tls.key, ...serverOptions } } : { http: serverOptions }),
    return503OnClosing: false,
    forceCloseConnections: true,
  } as object) as unknown as FastifyInstance;
  const recordRefusal = createRefusalRecorder(services);
  const bodies = createBodyBudget(services.clock, answerLate);

  // sourceAddress() uses this instead of Fastify's trustProxy, which also accepts invalid
  // addresses.
  app.decorate('proxies', services.settings.proxies);

  app.decorateRequest('correlation_id', '' as never);
  app.decorateRequest('span_id', '');
  app.decorateRequest('touched', null as never);
  app.decorateRequest('operation', null);
  app.decorateRequest('person', null);
  app.decorateRequest('agent_session', null);
  app.decorateRequest('relay', null);
  await app.register(cookie);
  setParsers(app, jsonOnly);

  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
    await services.longPolls.close();
  });
  app.addHook('onRequest', async (request, reply) => {
    request.correlation_id = correlationOf(request);
    reply.header('x-correlation-id', request.correlation_id);
    reply.header('traceparent', beginSpan(request));
    reply.headers(commonHeaders);
    if (services.settings.secure_cookies && isNamedHost(request)) reply.headers(hstsHeader);
    if (isClosing) throw new ApiProblem('not_ready', { retry_after_seconds: 1 });
    if (!request.is404 || isConsolePage(request, services.settings.console_dir)) return undefined;
    // Refuse an unknown address before reading the body. Only OPTIONS of a known one passes.
    refuseUnrouted(request, reply);
    return reply.status(204).send();
  });
  // Charge in onSend, not in onResponse: a caller that disconnects early costs the same work.
  app.addHook('onSend', (request, _reply, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    services.rates.chargeReply(request, isWhole ? Buffer.byteLength(payload) : 0);
    done(null, payload);
  });
  app.addHook('onResponse', async (request, reply) => {
    const { operation } = request;
    if (operation && !waitingCalls.has(operation)) services.latencies.observeCall(operation, reply.elapsedTime / 1000);
    const isFrequent = request.method === 'GET' || request.agent_session;
    // A replica that stops refuses calls on purpose, and health checks see it.
    const isStopping = reply.statusCode === 503 && (isClosing || services.isDraining());
    const isFailure = reply.statusCode >= 500 && !isStopping;
    const level = isFailure ? 'error' : isFrequent ? 'debug' : 'info';
    const ids = idsOfRequest(request);
    request.log[level](
      {
        ...ids,
        operation,
        status: reply.statusCode,
        milliseconds: Math.round(reply.elapsedTime),
        actor: request.person?.name,
      },
      'request',
    );
    if (services.tracer && isTraced(request)) services.tracer.record([spanOf(request, reply, ids, services.clock)]);
  });
  app.setErrorHandler(async (error, request, reply) => {
    dropBody(request);
    if (countsAsRefused(error)) await services.rates.delayRefusal(request, reply);
    const problem = sendProblem(error, request, reply);
    await recordRefusal(request, problem).catch((recordError) =>
      request.log.warn({ error: recordError }, 'could not record a refusal'),
    );
    return reply;
  });
  const routesByTypes = Map.groupBy(Object.keys(routes) as OperationName[], (name) => typesReadBy(routes[name]).join());
  for (const names of routesByTypes.values())
    await app.register(async (scope) => {
      setParsers(scope, typesReadBy(routes[names[0] as OperationName]));
      for (const name of names) addRoute(scope, name, services, bodies);
    });
  serveUpgrades(app);
  await serveProtocols(app, services, recordRefusal);
  await serveDocs(app, services.settings.version);
  await serveConsole(app, services.settings.console_dir);
  openBeatLane(app.server, services, () => isClosing);
  services.connections.watch(app.server);
  return app;
}
