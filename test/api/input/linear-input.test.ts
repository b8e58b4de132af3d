/**
 * Code that reads input of unknown callers runs in linear time: an input four times as long must
 * take less than nine times as long.
 */
import cookie from '@fastify/cookie';
import Fastify, { type FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rewriteUrl } from '../../../src/api/compat/admit.ts';
import { isProtocolCall } from '../../../src/api/compat/serve.ts';
import { refuseUnrouted } from '../../../src/api/http/addresses.ts';
import { bearerOf, checkOrigin } from '../../../src/api/http/auth.ts';
import { checkContentType, jsonOnly, setParsers } from '../../../src/api/http/bodies/parsers.ts';
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
import { parseCursor } from '../../../src/store/evidence/commit-order.ts';
import { parseLogCursor } from '../../../src/store/logs/node-logs.ts';
import { expectLinear } from '../../support/growth.ts';
import { hostileBootReports, hostileJson, hostileText, hostileYaml } from '../support/hostile-input.ts';

const size = 50_000;
const maxRefusalLength = 8_000;

/**
 * Runs the work and renders a refusal as it would be sent, because that costs time too. Any other
 * error fails the test.
 */
function runOrRefuse(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    expect(JSON.stringify(problemBody(error, 'c')).length).toBeLessThan(maxRefusalLength);
  }
}

const routeTable: [string, RouteDeclaration][] = Object.entries(routes);
const readBeforeAuthorization = routeTable.flatMap(([name, { access, body }]) =>
  body && (access.kind === 'body' || access.kind === 'public') ? [[name, body] as const] : [],
);
/** A join token is a weak credential, and a relay parses heartbeats of unknown agents. */
const readBehindWeakCredentials: (readonly [string, TSchema])[] = [
  ['agent-heartbeat', routes['agent-heartbeat'].body],
  ...Object.entries(protocolRoutes).flatMap(([name, route]) => ('body' in route ? [[name, route.body] as const] : [])),
];

describe('a request is read in linear time', () => {
  let app: FastifyInstance;
  const settings = { loopback_only: false, proxies: trustedProxies(['loopback']) } as never;

  beforeAll(async () => {
    app = Fastify({ bodyLimit: 16 * 1024 * 1024, routerOptions: { maxParamLength: 256 } });
    app.decorateRequest('correlation_id', '' as never);
    app.decorateRequest('span_id', '');
    await app.register(cookie);
    setParsers(app, jsonOnly);
    app.addHook('onRequest', async (request) => {
      request.correlation_id = correlationOf(request);
      beginSpan(request);
      bearerOf(request);
      runOrRefuse(() => checkOrigin(request, { settings }));
      runOrRefuse(() => checkContentType(request, routes['session-create']));
    });
    for (const [name, schema] of [...readBeforeAuthorization, ...readBehindWeakCredentials]) {
      const check = compileCheck(schema, 'body');
      app.post(`/${name}`, async ({ body }) => runOrRefuse(() => check(body ?? null)));
    }
    const checkQuery = compileCheck(routes['health-get'].query, 'query');
    app.get('/healthz', async ({ query }) => runOrRefuse(() => checkQuery(query)));
    app.get('/v1/nodes/:id', async () => undefined);
    await app.ready();
  });
  afterAll(() => app.close());

  it.for([...readBeforeAuthorization, ...readBehindWeakCredentials].map(([name]) => name))(
    'with a body of %s',
    async (name) => {
      for (const [what, shape] of Object.entries(hostileJson))
        await expectLinear(what, size, shape, (payload) =>
          app.inject({ method: 'POST', url: `/${name}`, headers: { 'content-type': 'application/json' }, payload }),
        );
    },
  );

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

const entriesOf = (shapes: Record<string, (size: number) => string>) => Object.entries(shapes);

describe('other parsers run in linear time', () => {
  const reply = { header() {} } as never;
  it.for(entriesOf(hostileText))('for addresses: %s', async ([, shape]) => {
    await expectLinear('address', size, shape, (value) => {
      for (const url of [`/${value}`, `/compat/${value}`, `/compat/agentfield/${value}`, `/v1/agent/tasks/${value}`]) {
        runOrRefuse(() => refuseUnrouted({ url, method: 'POST' } as never, reply));
        rewriteUrl({ url } as never);
        isProtocolCall(url);
        const target = targetOf(url);
        if (target) isAgentPath(target.path);
      }
      parseCursor(value);
      parseLogCursor(value);
    });
  });

  it.for(entriesOf(hostileBootReports))('for boot reports: %s', async ([what, shape]) => {
    // The smaller input is about as long as the route allows. On shorter input, work that is
    // quadratic per line would still be cheap.
    await expectLinear(what, 5 * size, shape, (text) => runOrRefuse(() => readBootReport(text)));
  });

  // The smaller input is a quarter of the limit, so that the larger one just fits.
  it.for(entriesOf(hostileYaml))('for YAML: %s', async ([what, shape]) => {
    await expectLinear(what, maxYamlBytes / 4 - 64, shape, (text) => runOrRefuse(() => readYaml(text)));
    await expectLinear(`${what}, beyond the limit`, size, shape, (text) => runOrRefuse(() => readYaml(text)));
  });
});
