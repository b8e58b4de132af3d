/** The HTTP server: every route of the table, with the same order of checks before each handler. */
import cookie from '@fastify/cookie';
import Fastify, { type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import { parse as parseYaml } from 'yaml';
import { now } from '../base/clock.ts';
import type { KnownIds } from '../base/ids.ts';
import { ApiProblem } from '../contract/errors.ts';
import type { RouteDeclaration } from '../contract/route.ts';
import { type OperationName, routes } from '../contract/routes.ts';
import { recordEvidence } from '../store/evidence.ts';
import { authorize, checkOrigin } from './auth.ts';
import { correlationOf } from './correlation.ts';
import { createDenialRecorder } from './denials.ts';
import { handlers } from './handlers.ts';
import { keepForRepeats, replayed } from './idempotent-replies.ts';
import { sendProblem } from './problem-reply.ts';
import { type ApiServices, actorOf, type Call, type Handler } from './services.ts';
import { serveConsole, serveDocs } from './static-files.ts';
import { compileCheck, compileReply } from './validation.ts';

const bodyLimitBytes = 256 * 1024;

export interface TlsFiles {
  cert: Buffer;
  key: Buffer;
}

function readBodies(app: FastifyInstance): void {
  const json = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined);
    else json(request, body as string, done);
  });
  app.addContentTypeParser('application/x-ndjson', { parseAs: 'string' }, (_, body, done) => done(null, body));
  app.addContentTypeParser(
    ['application/yaml', 'text/yaml', 'application/x-yaml'],
    { parseAs: 'string' },
    (_, body, done) => {
      try {
        done(null, parseYaml(body as string, { maxAliasCount: 50 }));
      } catch (error) {
        done(
          new ApiProblem(
            'malformed_json',
            `The body is not valid YAML: ${error instanceof Error ? error.message.split('\n')[0] : ''}`,
          ),
        );
      }
    },
  );
}

/** A content type that the server can read, but this route does not take. */
function checkContentType(request: FastifyRequest, route: RouteDeclaration): void {
  const given = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (!given || request.body === undefined) return;
  const yaml = given.endsWith('yaml') ? 'application/yaml' : given;
  const taken = route.also_reads?.includes('application/x-ndjson')
    ? route.also_reads
    : ['application/json', ...(route.also_reads ?? [])];
  if (!taken.includes(yaml))
    throw new ApiProblem('unsupported_media_type', `This route reads ${taken.join(' or ')}, not ${given}.`);
}

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

/** The ids of what a call touched, as its answer names them. */
function idsIn(answer: unknown): KnownIds {
  const { allocation, operation, node } = (answer ?? {}) as {
    allocation?: KnownIds;
    operation?: KnownIds;
    node?: KnownIds;
  };
  const { allocation_id, node_id, node_instance_id, workflow_id } = {
    ...(answer as KnownIds),
    ...node,
    ...operation,
    ...allocation,
  };
  return { allocation_id, node_id, node_instance_id: node_instance_id ?? node?.node_instance_id, workflow_id };
}

/** Who asked for what, as evidence of its own layer; the change itself has its evidence already. */
async function tellServed(
  request: FastifyRequest,
  status: number,
  answer: unknown,
  services: ApiServices,
): Promise<void> {
  if (!request.person || request.method === 'GET') return;
  await recordEvidence(services.db, [
    {
      at: now(services.clock),
      layer: 'api',
      kind: 'request.served',
      summary: `${request.person.name} called ${request.operation} (${status})`,
      data: { operation: request.operation, status, params: request.params },
      actor: actorOf(request.person),
      ...idsIn(answer),
      correlation_id: request.correlation_id,
    },
  ]);
}

function addRoute(app: FastifyInstance, name: OperationName, services: ApiServices): void {
  const route: RouteDeclaration = routes[name];
  const handler = handlers[name] as Handler<OperationName>;
  const checkParams = route.params && compileCheck(route.params, 'path');
  const checkQuery = route.query && compileCheck(route.query, 'query');
  const checkBody = route.body && compileCheck(route.body, 'body');
  const checkReply = route.reply && compileReply(route.reply);
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    bodyLimit: route.body_limit_bytes ?? bodyLimitBytes,
    exposeHeadRoute: false,
    onRequest: async (request) => {
      request.operation = name;
      checkOrigin(request, services);
      await authorize(request, route.access, services);
    },
    preHandler: async (request) => {
      checkContentType(request, route);
      if (checkParams) request.params = checkParams(request.params);
      request.query = checkQuery ? checkQuery(request.query) : undefined;
      if (checkBody && !(route.body_optional && request.body === undefined))
        request.body = checkBody(request.body ?? null);
    },
    handler: async (request, reply) => {
      if (await replayed(request, reply, services)) return reply;
      reply.status(route.success);
      const answer = await handler(callOf(request, reply), services);
      if (reply.sent) return reply;
      if (checkReply) checkReply(answer);
      await keepForRepeats(request, reply.statusCode, answer, services);
      await tellServed(request, reply.statusCode, answer, services);
      if (answer === undefined) return reply.status(204).send();
      return answer;
    },
  });
}

export async function createApiServer(services: ApiServices, tls: TlsFiles | null): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: services.log as never,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false },
    trustProxy: services.settings.behind_proxy,
    ...(tls && { https: { cert: tls.cert, key: tls.key } }),
    return503OnClosing: false,
    forceCloseConnections: true,
  } as object) as unknown as FastifyInstance;
  const tellDenial = createDenialRecorder(services);

  app.decorateRequest('correlation_id', '' as never);
  app.decorateRequest('operation', null);
  app.decorateRequest('person', null);
  app.decorateRequest('agent_session', null);
  app.decorateRequest('idempotency', null);
  await app.register(cookie);
  readBodies(app);

  app.addHook('onRequest', async (request, reply) => {
    request.correlation_id = correlationOf(request);
    reply.header('x-correlation-id', request.correlation_id);
    reply.header('x-content-type-options', 'nosniff');
    reply.header('referrer-policy', 'same-origin');
    reply.header('cache-control', 'no-store');
  });
  app.addHook('onResponse', async (request, reply) => {
    const { correlation_id, operation, agent_session } = request;
    const level = reply.statusCode >= 500 ? 'error' : request.method === 'GET' || agent_session ? 'debug' : 'info';
    request.log[level](
      {
        correlation_id,
        operation,
        status: reply.statusCode,
        milliseconds: Math.round(reply.elapsedTime),
        actor: request.person?.name,
        node_id: agent_session?.node_id,
        node_instance_id: agent_session?.node_instance_id,
      },
      'request',
    );
  });
  app.setErrorHandler(async (error, request, reply) => {
    const problem = sendProblem(error, request, reply);
    await keepForRepeats(request, 500, null, services).catch((lost) =>
      request.log.warn({ error: lost }, 'an idempotency key could not be freed'),
    );
    const owner =
      problem.code.startsWith('token') ||
      problem.code.endsWith('insufficient') ||
      problem.code.endsWith('refused') ||
      problem.code === 'instance_fenced' ||
      problem.code === 'credential_unknown';
    if (owner)
      await tellDenial(request, problem).catch((lost) =>
        request.log.warn({ error: lost }, 'a denial could not be recorded'),
      );
    return reply;
  });
  for (const name of Object.keys(routes) as OperationName[]) addRoute(app, name, services);
  await serveDocs(app, services.settings.version);
  await serveConsole(app, services.settings.console_dir);
  return app;
}
