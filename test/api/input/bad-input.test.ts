/**
 * Bad input is always a problem of the catalogue, never our failure, and changes nothing. The requests are made from the
 * contract's own schemas, so a new route is tried without anybody thinking of it.
 */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fillPath } from '../../../src/contract/client.ts';
import type { ProtocolRoute } from '../../../src/contract/compat/protocol.ts';
import { protocolPath, protocolRoutes } from '../../../src/contract/compat/routes.ts';
import type { ErrorCode } from '../../../src/contract/errors/errors.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import { asJson, brokenFor, brokenParameter, fitting, propertiesOf } from '../support/broken-values.ts';
import { type Answer, expectProblem } from '../support/calls.ts';
import { expectTheirError, startWorkspace, type Workspace } from '../support/compat-clients.ts';
import { type TenantWorld, tenantWorld } from '../support/tenants.ts';
import { openWire, type Wire } from '../support/wire.ts';

const seed = Number(process.env.SLIPWAY_SEED ?? randomInt(2 ** 31));
const requests = Number(process.env.SLIPWAY_BAD_REQUESTS ?? 3_000);
const mostMs = 45_000;

/** One machine sends all bad rotations, and may come to more of them than a real one is allowed. */
const rotationsUnlimited = 'limits: { requests: { rotation: { burst: 100000, per_second: 1000 } } }';

let directory: string;
let world: TenantWorld;
let wire: Wire;
let workspace: Workspace;
let before: Record<string, string>;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-bad-input-'));
  const config = join(directory, 'slipway.yaml');
  await writeFile(config, rotationsUnlimited);
  world = await tenantWorld({ args: ['--config', config] });
  wire = openWire(world.url);
  workspace = await startWorkspace(world.url, world.join_token, '3f0e9b1c-5b1d-4a51-9d0c-2a4f6f1b7c01');
  before = await world.tables.snapshot();
  console.log(`bad input: SLIPWAY_SEED=${seed}`);
});
afterAll(async () => {
  wire.close();
  await world.stop();
  await rm(directory, { recursive: true, force: true });
});

interface Request {
  name: OperationName;
  what: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
  codes?: ErrorCode[];
}

const table = Object.entries(routes) as [OperationName, RouteDeclaration][];
const json = { 'content-type': 'application/json' };

/** Ids that look right and name nothing. */
const unknown = (route: RouteDeclaration) =>
  Object.fromEntries(
    propertiesOf(route.params).map(([key]) => [key, key === 'pool' ? 'no-such-pool' : 'none_0123456789']),
  );
const pathOf = (route: RouteDeclaration, params = unknown(route)) => fillPath(route.path, params);

const someOf = <T>(wanted: (route: RouteDeclaration) => T | undefined | false) =>
  table.flatMap(([name, route]) => (wanted(route) ? [{ name, route }] : []));

const brokenBodies = someOf((route) => route.body).map(({ name, route }) =>
  brokenFor(route.body ?? {}).map(
    (body): Request => ({ name, what: 'body', path: pathOf(route), headers: json, body: asJson(body) }),
  ),
);

const malformed = [
  '{',
  '[1,',
  '{"a":1}}',
  'nul',
  "{'a':1}",
  '{"a":}',
  '\u0000',
  'NaN',
  '{"__proto__":{}}',
  '{"constructor":{"prototype":{}}}',
];
const malformedBodies = someOf((route) => route.body).map(({ name, route }) =>
  fc
    .constantFrom(...malformed)
    .map(
      (body): Request => ({ name, what: 'JSON', path: pathOf(route), headers: json, body, codes: ['malformed_json'] }),
    ),
);

const types = [
  'text/plain',
  'application/xml',
  'multipart/form-data; boundary=x',
  'application/x-ndjson',
  'application/json5',
  'x',
  'text/html; charset=utf-7',
];
const wrongTypes = someOf((route) => route.body && !route.also_reads).map(({ name, route }) =>
  fc.constantFrom(...types).map(
    (type): Request => ({
      name,
      what: 'content type',
      path: pathOf(route),
      headers: { 'content-type': type },
      body: '{}',
      codes: ['unsupported_media_type'],
    }),
  ),
);

const bodyThatFits = (route: RouteDeclaration) => (route.body ? fitting(route.body) : fc.constant(undefined));

const brokenPaths = someOf((route) => route.params).map(({ name, route }) =>
  fc
    .tuple(
      fc.record(Object.fromEntries(propertiesOf(route.params).map(([key, each]) => [key, brokenParameter(each)]))),
      bodyThatFits(route),
    )
    .map(([params, body]): Request => {
      const path = route.path.replace(/\{(\w+)\}/g, (_, key: string) => params[key] ?? '');
      return {
        name,
        what: 'path',
        path,
        headers: body === undefined ? {} : json,
        ...(body !== undefined && { body: asJson(body) }),
      };
    }),
);

// A PUT declares what was not there; for all others an unknown id is a mistake.
const unknownIds = someOf((route) => route.params && route.method !== 'PUT').map(({ name, route }) =>
  bodyThatFits(route).map(
    (body): Request => ({
      name,
      what: 'unknown id',
      path: pathOf(route),
      headers: body === undefined ? {} : json,
      ...(body !== undefined && { body: asJson(body) }),
    }),
  ),
);

const strangeQueries = [
  'unknown=1',
  '__proto__=1',
  'constructor=1',
  '%00=1',
  'a[b]=1',
  '%ZZ=1',
  `${'q'.repeat(2_000)}=1`,
];
const brokenQueries = someOf((route) => route.method === 'GET').map(({ name, route }) => {
  const fields = propertiesOf(route.query);
  const odd = fields.map(([key, each]) => brokenParameter(each).map((value) => `${key}=${value}`));
  const twice = fields.map(([key]) => fc.constant(`${key}=1&${key}=2`));
  return fc
    .oneof(fc.constantFrom(...strangeQueries), ...odd, ...twice)
    .map((query): Request => ({ name, what: 'query', path: `${pathOf(route)}?${query}`, headers: {} }));
});

const takesKey = (route: RouteDeclaration) =>
  route.method !== 'GET' && route.access.kind === 'person' && !route.reads_only;
const badKeys = someOf(takesKey).map(({ name, route }) =>
  fc.tuple(fc.constantFrom('', ' ', 'with space', 'k'.repeat(256), 'é', '\t'), bodyThatFits(route)).map(
    ([key, body]): Request => ({
      name,
      what: 'idempotency key',
      path: pathOf(route),
      headers: { 'idempotency-key': key, ...(body !== undefined && json) },
      ...(body !== undefined && { body: asJson(body) }),
    }),
  ),
);

const all = fc.oneof(
  { arbitrary: fc.oneof(...brokenBodies), weight: 10 },
  { arbitrary: fc.oneof(...malformedBodies), weight: 2 },
  { arbitrary: fc.oneof(...wrongTypes), weight: 1 },
  { arbitrary: fc.oneof(...brokenPaths), weight: 4 },
  { arbitrary: fc.oneof(...unknownIds), weight: 1 },
  { arbitrary: fc.oneof(...brokenQueries), weight: 5 },
  { arbitrary: fc.oneof(...badKeys), weight: 1 },
);

function bearerFor(name: OperationName): Record<string, string> {
  const { access }: RouteDeclaration = routes[name];
  if (access.kind === 'person') return { authorization: `Bearer ${world.token}` };
  return access.kind === 'agent' ? { authorization: `Bearer ${world.acme.machine.credential}` } : {};
}

const sendBad = ({ name, path, headers, body }: Request): Promise<Answer> =>
  wire.send(routes[name].method, path, { ...bearerFor(name), ...headers }, body);

it('thousands of bad requests are refused as problems, and change nothing', { timeout: 120_000 }, async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(all, async (request) => {
      const answer = await sendBad(request);
      expectProblem(answer, request.codes, `${request.name} (${request.what}) ${request.path}`);
      expect(answer.status).toBeLessThan(500);
      seen.set(String(answer.body.code), (seen.get(String(answer.body.code)) ?? 0) + 1);
    }),
    { numRuns: requests, seed, interruptAfterTimeLimit: mostMs, markInterruptAsFailure: false },
  );
  const sent = [...seen.values()].reduce((sum, count) => sum + count, 0);
  console.log(`bad input: ${sent} requests refused: ${JSON.stringify(Object.fromEntries(seen))}`);
  expect(sent).toBeGreaterThan(500);
  expect(await world.tables.snapshot()).toEqual(before);
});

const protocolBodies = (Object.entries(protocolRoutes) as [string, ProtocolRoute][]).flatMap(([name, route]) =>
  route.body
    ? [
        fc
          .oneof(
            { arbitrary: brokenFor(route.body).map(asJson), weight: 5 },
            { arbitrary: fc.constantFrom(...malformed), weight: 1 },
          )
          .filter((body) => body !== 'null' || !route.body_optional)
          .map((body) => ({ name, route, body })),
      ]
    : [],
);

it('hundreds of bad bodies at the front doors are refused in their shape, and change nothing', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(...protocolBodies), async ({ name, route, body }) => {
      const bearer = route.access === 'instance' ? workspace.auth_token : world.join_token;
      const path = protocolPath(route).replace('{id}', 'nobody');
      const answer = await wire.send(route.method, path, { authorization: `Bearer ${bearer}`, ...json }, body);
      expectTheirError(answer, 400, `${name} ${body.slice(0, 200)}`);
    }),
    { numRuns: Math.ceil(requests / 10), seed, interruptAfterTimeLimit: mostMs, markInterruptAsFailure: false },
  );
  expect(await world.tables.snapshot()).toEqual(before);
});

describe('what a generator does not think of', () => {
  const admin = () => ({ authorization: `Bearer ${world.token}` });

  it.each(someOf((route) => route.body ?? route.also_reads))('$name caps its body', async ({ name, route }) => {
    const limit = route.body_limit_bytes ?? 256 * 1024;
    const type = route.also_reads?.[0] === 'application/x-ndjson' ? 'application/x-ndjson' : 'application/json';
    const answer = await wire.send(
      route.method,
      pathOf(route),
      { ...bearerFor(name), 'content-type': type },
      `"${'a'.repeat(limit)}"`,
    );
    expectProblem(answer, 'body_too_large');
  });

  it('JSON without end', async () => {
    const deep = `${'["a",'.repeat(40_000)}1${']'.repeat(40_000)}`;
    const bodies = [deep, `{"pool":"outside","labels":${deep}}`, `{"driver":"external","spec":{"a":${deep}}}`];
    for (const body of bodies)
      for (const [method, path] of [
        ['POST', '/v1/allocations'],
        ['PUT', '/v1/pools/outside'],
      ] as const)
        expectProblem(await wire.send(method, path, { ...admin(), ...json }, body), [
          'invalid_request',
          'malformed_json',
          'body_too_large',
        ]);
  });

  it.each([
    ['a loop', '&a [*a]'],
    ['aliases that multiply', `a: &a [1,1,1,1,1,1,1,1]\nb: &b [${'*a,'.repeat(60)}*a]\ndriver: external`],
    ['a number that is none', 'driver: external\nmax_nodes: .nan'],
    ['bytes', 'driver: !!binary aGk='],
    ['two documents', 'driver: external\n---\ndriver: external'],
    ['a prototype', 'driver: external\n__proto__: {a: 1}'],
    ['brackets without end', '['.repeat(20_000)],
    ['NUL', 'driver: external\nzone: "a\\0b"'],
    ['a tab', '\tdriver: external'],
  ])('YAML with %s', async (_, body) => {
    const answer = await wire.send(
      'PUT',
      '/v1/pools/outside',
      { ...admin(), 'content-type': 'application/yaml' },
      body,
    );
    expectProblem(answer, ['malformed_json', 'invalid_request']);
  });

  it.each([
    ['nothing', '', 'invalid_request'],
    ['no JSON', 'hello\n', 'malformed_json'],
    [
      'NUL',
      `${JSON.stringify({ seq: 1, at: '2030-01-01T00:00:00Z', stream: 'stdout', line: 'a\0b' })}\n`,
      'invalid_request',
    ],
    [
      'a number too large',
      `{"seq":1e300,"at":"2030-01-01T00:00:00Z","stream":"stdout","line":"a"}\n`,
      'invalid_request',
    ],
    ['a day that is none', `{"seq":1,"at":"2030-02-31T00:00:00Z","stream":"stdout","line":"a"}\n`, 'invalid_request'],
    ['another stream', `{"seq":1,"at":"2030-01-01T00:00:00Z","stream":"secret","line":"a"}\n`, 'invalid_request'],
    ['too many lines', '{}\n'.repeat(5_001), 'body_too_large'],
  ] as const)('log lines: %s', async (_, body, code) => {
    const answer = await wire.send(
      'POST',
      '/v1/agent/logs',
      { authorization: `Bearer ${world.acme.machine.credential}`, 'content-type': 'application/x-ndjson' },
      body,
    );
    expectProblem(answer, code);
  });

  it('actions that are illegal in this state, and resources that are not there', async () => {
    const { allocation } = world.acme;
    const at = (path: string, method = 'POST', body?: string) =>
      wire.send(method, path, { ...admin(), ...(body && json) }, body);
    const cases: [Promise<Answer>, ErrorCode][] = [
      [at(`/v1/allocations/${allocation.allocation_id}/retry`), 'action_illegal'],
      [at(`/v1/operations/${allocation.workflow_id}/cancel`), 'operation_ended'],
      [at(`/v1/operations/${allocation.workflow_id}/retry`), 'operation_ended'],
      [at('/v1/allocations', 'POST', '{"pool":"no-such-pool"}'), 'pool_not_found'],
      [at('/v1/nodes', 'POST', '{"pool":"local"}'), 'pool_not_external'],
      [at('/v1/nodes', 'POST', '{"pool":"outside","name":"acme-machine"}'), 'name_taken'],
      [at('/v1/pools/local/join-tokens', 'POST', '{}'), 'pool_not_external'],
      [at('/v1/pools/outside', 'DELETE'), 'pool_in_use'],
      [at('/v1/pools/outside', 'PUT', '{"driver":"local"}'), 'driver_fixed'],
      [at('/v1/pools/fresh', 'PUT', '{"driver":"../local"}'), 'driver_unknown'],
      [at('/v1/pools/fresh', 'PUT', '{"driver":"external","name":"other"}'), 'invalid_request'],
      [at('/v1/pools/fresh', 'PUT', '{"driver":"local","spec":{"command":"rm -rf /"}}'), 'invalid_spec'],
      [at('/v1/tokens/tok_none', 'DELETE'), 'token_not_found'],
      [at('/v1/timeline', 'GET'), 'invalid_request'],
      [at('/v1/nodes?cursor=%27', 'GET'), 'invalid_cursor'],
      [at('/v1/audit?cursor=99999999999999999999-1', 'GET'), 'invalid_cursor'],
      [at('/v1/session', 'DELETE', '{"unknown":1}'), 'invalid_request'],
    ];
    for (const [answer, code] of cases) expectProblem(await answer, code);
  });

  it('a known address with another method says which it takes', async () => {
    const answer = await wire.send('PATCH', '/v1/nodes/node_x', { ...admin(), 'content-type': 'x/y' }, 'anything');
    expectProblem(answer, 'method_not_allowed');
    expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS');
    for (const method of ['PUT', 'DELETE', 'TRACE', 'PROPFIND', 'SEARCH'])
      expectProblem(await wire.send(method, '/v1/allocations', admin()), 'method_not_allowed', method);
    for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1//nodes', '/compat/x', '/docs/nothing'])
      expectProblem(await wire.send('GET', path, admin()), 'not_found', path);
    expectProblem(await wire.send('POST', '/nothing', { ...admin(), 'content-type': 'x/y' }, 'x'), 'not_found');
  });

  it('HEAD answers like GET without a body, OPTIONS names the methods, and neither opens a door', async () => {
    const head = await wire.send('HEAD', '/healthz', {});
    expect([head.status, head.text]).toEqual([200, '']);
    expect((await wire.send('HEAD', '/v1/nodes', {})).status).toBe(401);
    expect((await wire.send('HEAD', '/v1/nodes', admin())).status).toBe(200);
    expect((await wire.send('HEAD', '/v1/stream', admin())).status).toBe(405);
    const options = await wire.send('OPTIONS', '/v1/allocations', { origin: 'https://elsewhere.example' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'POST, GET, HEAD, OPTIONS']);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
  });

  it.each([
    ['no method', ' / HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
    ['an unknown method', 'BREW /v1/nodes HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
    ['not HTTP', 'hello\r\n\r\n', 400],
    ['a header without end', `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`, 431],
    [
      'two lengths',
      'POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n',
      400,
    ],
    [
      'length and chunks',
      'POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n',
      400,
    ],
    [
      'a broken chunk',
      'POST /v1/session HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n',
      400,
    ],
    ['no host', 'GET /v1/nodes HTTP/1.1\r\nconnection: close\r\n\r\n', 403],
    ['another host', 'GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n', 403],
    ['a bad escape', 'GET /v1/nodes/%ZZ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n', 400],
    [
      'an endless name',
      `GET /v1/nodes/${'a'.repeat(400)} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      400,
    ],
    ['NUL in a header', 'GET /v1/nodes HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n', 400],
  ])('%s on the wire', async (_, bytes, status) => {
    const text = await wire.bytes(bytes);
    const [head = '', body = ''] = text.split('\r\n\r\n');
    expect(head, text).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head.toLowerCase()).toContain('content-type: application/problem+json');
    const problem = JSON.parse(body);
    expect(problem).toMatchObject({ status, correlation_id: expect.any(String) });
  });

  it('all of it changed nothing', async () => {
    expect(await world.tables.snapshot()).toEqual(before);
  });
});
