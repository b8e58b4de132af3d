/**
 * Everything that reads input of unknown callers takes linear time: four times the input must take
 * less than nine times as long.
 */
import cookie from '@fastify/cookie';
import Fastify, { type FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rewriteUrl } from '../../../src/api/compat/admit.ts';
import { isProtocolCall } from '../../../src/api/compat/serve.ts';
import { refuseUnrouted } from '../../../src/api/http/addresses.ts';
import { bearerOf, checkOrigin } from '../../../src/api/http/auth.ts';
import { checkContentType, jsonOnly, readTypes } from '../../../src/api/http/bodies/parsers.ts';
import { maxYamlBytes, readYaml } from '../../../src/api/http/bodies/yaml.ts';
import { correlationOf } from '../../../src/api/http/correlation.ts';
import { beginSpan } from '../../../src/api/http/request-span.ts';
import { compileCheck } from '../../../src/api/http/validation.ts';
import { trustedProxies } from '../../../src/base/network/trusted-proxies.ts';
import { readBootReport } from '../../../src/contract/agent/boot-report/read.ts';
import { protocolRoutes } from '../../../src/contract/compat/routes.ts';
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { problemBody } from '../../../src/contract/errors/problem-body.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { routes } from '../../../src/contract/routes.ts';
import { isAgentPath, targetOf } from '../../../src/relay/listener.ts';
import { parseCursor } from '../../../src/store/evidence/evidence.ts';
import { parseLogCursor } from '../../../src/store/logs/node-logs.ts';
import { expectLinear } from '../../support/growth.ts';
import { hostileBootReports, hostileJson, hostileText, hostileYaml } from '../support/hostile-input.ts';

const size = 50_000;
const maxRefusalLength = 8_000;

/**
 * Runs it, including the cost of a refusal: the problem as it is sent. Any other error fails the
 * test.
 */
function tried(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    expect(JSON.stringify(problemBody(error, 'c')).length).toBeLessThan(maxRefusalLength);
  }
}

const declared: [string, RouteDeclaration][] = Object.entries(routes);
const readBeforeAuthorization = declared.flatMap(([name, { access, body }]) =>
  body && (access.kind === 'body' || access.kind === 'public') ? [[name, body] as const] : [],
);
/** A join token is a weak credential, and a relay parses heartbeats of unknown agents. */
const readBehindWeakCredentials: (readonly [string, TSchema])[] = [
  ['agent-heartbeat', routes['agent-heartbeat'].body],
  ...Object.entries(protocolRoutes).flatMap(([name, route]) => ('body' in route ? [[name, route.body] as const] : [])),
];

describe('JSON bodies', () => {
  let app: FastifyInstance;
  const settings = { loopback_only: false, proxies: trustedProxies(['loopback']) } as never;

  beforeAll(async () => {
    app = Fastify({ bodyLimit: 16 * 1024 * 1024, routerOptions: { maxParamLength: 256 } });
    app.decorateRequest('correlation_id', '' as never);
    app.decorateRequest('span_id', '');
    await app.register(cookie);
    readTypes(app, jsonOnly);
    app.addHook('onRequest', async (request) => {
      request.correlation_id = correlationOf(request);
      beginSpan(request);
      bearerOf(request);
      tried(() => checkOrigin(request, { settings }));
      tried(() => checkContentType(request, routes['session-create']));
    });
    for (const [name, schema] of [...readBeforeAuthorization, ...readBehindWeakCredentials]) {
      const check = compileCheck(schema, 'body');
      app.post(`/${name}`, async ({ body }) => tried(() => check(body ?? null)));
    }
    const checkQuery = compileCheck(routes['health-get'].query, 'query');
    app.get('/healthz', async ({ query }) => tried(() => checkQuery(query)));
    app.get('/v1/nodes/:id', async () => undefined);
    await app.ready();
  });
  afterAll(() => app.close());

  it.for([...readBeforeAuthorization, ...readBehindWeakCredentials].map(([name]) => name))('of %s', async (name) => {
    for (const [what, shape] of Object.entries(hostileJson))
      await expectLinear(what, size, shape, (payload) =>
        app.inject({ method: 'POST', url: `/${name}`, headers: { 'content-type': 'application/json' }, payload }),
      );
  });

  it.for([
    'accept',
    'authorization',
    'content-type',
    'cookie',
    'forwarded',
    'host',
    'idempotency-key',
    'last-event-id',
    'origin',
    'traceparent',
    'tracestate',
    'x-correlation-id',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
  ])('with the header %s', async (header) => {
    for (const [what, shape] of Object.entries(hostileText))
      await expectLinear(what, size, shape, (value) =>
        app.inject({ method: 'POST', url: '/session-create', headers: { [header]: value }, payload: '' }),
      );
  });

  it.for(['/healthz?', '/healthz?nonce=', '/v1/nodes/', '/'])('at the address %s…', async (prefix) => {
    for (const [what, shape] of Object.entries(hostileText))
      await expectLinear(what, size, shape, (value) =>
        app.inject({ method: 'GET', url: prefix + value.replaceAll(' ', '+') }),
      );
  });
});

const each = (shapes: Record<string, (size: number) => string>) => Object.entries(shapes);

describe('other parsers', () => {
  const reply = { header() {} } as never;
  it.for(each(hostileText))('of addresses: %s', async ([, shape]) => {
    await expectLinear('address', size, shape, (value) => {
      for (const url of [`/${value}`, `/compat/${value}`, `/compat/agentfield/${value}`, `/v1/agent/tasks/${value}`]) {
        tried(() => refuseUnrouted({ url, method: 'POST' } as never, reply));
        rewriteUrl({ url } as never);
        isProtocolCall(url);
        const target = targetOf(url);
        if (target) isAgentPath(target.path);
      }
      parseCursor(value);
      parseLogCursor(value);
    });
  });

  it.for(each(hostileBootReports))('of boot reports: %s', async ([what, shape]) => {
    // From the limit of its route on: below it, work that is quadratic per line is still cheap.
    await expectLinear(what, 5 * size, shape, (text) => tried(() => readBootReport(text)));
  });

  // Up to its limit; the smaller input is a quarter of it.
  it.for(each(hostileYaml))('of YAML: %s', async ([what, shape]) => {
    await expectLinear(what, maxYamlBytes / 4 - 64, shape, (text) => tried(() => readYaml(text)));
    await expectLinear(`${what}, beyond the limit`, size, shape, (text) => tried(() => readYaml(text)));
  });
});
