/** A route reads its declared content types. The server refuses others before it reads a body. */
import { request } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { routes } from '../../../src/contract/routes.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { expectProblem, send } from '../support/calls.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server?.stop());

/** Announces a body, sends none of it, and returns the answered status. */
const announceBody = (method: string, path: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    const allHeaders = { 'content-length': '2000', ...headers };
    const outgoing = request(server.url + path, { method, headers: allHeaders, agent: false }, (reply) => {
      resolve(reply.statusCode ?? 0);
      outgoing.destroy();
    });
    outgoing.on('error', reject);
    outgoing.flushHeaders();
  });

const routesWithBody = (Object.entries(routes) as [string, RouteDeclaration][]).filter(
  ([, { method }]) => method !== 'GET',
);
const types = ['application/yaml', 'text/yaml', 'application/x-ndjson', 'text/plain', 'application/xml', 'x'];
const declares = ({ extra_content_types = [] }: RouteDeclaration, type: string) =>
  extra_content_types.includes(type.endsWith('/yaml') ? 'application/yaml' : type);

it.for(routesWithBody)('%s refuses undeclared content types before the body arrives', async ([, route]) => {
  const path = route.path.replaceAll(/\{\w+\}/g, 'x');
  for (const type of types) {
    if (declares(route, type)) continue;
    const authorization = `Bearer ${server.token}`;
    const status = await announceBody(route.method, path, { 'content-type': type, authorization });
    // Agent routes may refuse the admin token first.
    expect([401, 415], type).toContain(status);
    if (route.access.kind !== 'agent') expect(status, type).toBe(415);
  }
});

it.for(['application/yaml', 'text/yaml', 'application/x-yaml', 'application/yaml; charset=utf-8'])(
  'accepts a pool declared in %s',
  async (type) => {
    const answer = await send(server.url, 'PUT', '/v1/pools/by-yaml', {
      bearer: server.token,
      headers: { 'content-type': type },
      raw: '# a pool\ndriver: external\nheartbeat:\n  stale_after_seconds: 77\n',
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ driver: 'external', heartbeat: { stale_after_seconds: 77 } });
  },
);

it('refuses a body on a route without one, but not an empty body', async () => {
  const signOut = (raw: string) => send(server.url, 'DELETE', '/v1/session', { bearer: server.token, raw });
  expectProblem(await signOut('{"a":1}'), 'invalid_request');
  expectProblem(await signOut(JSON.stringify({ a: 'x'.repeat(2000) })), 'body_too_large');
  expect((await signOut('{}')).status).toBe(204);
  expect((await signOut('')).status).toBe(204);
});
