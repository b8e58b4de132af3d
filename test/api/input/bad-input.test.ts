/**
 * Bad requests that generated-bad-input.test.ts does not generate are refused with a problem and
 * change nothing.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { commonHeaders } from '../../../src/api/http/replies/reply-headers.ts';
import type { ErrorCode } from '../../../src/contract/errors/errors.ts';
import { bearerFor, json, pathOf, routesWith } from '../support/bad-requests.ts';
import { type Answer, expectProblem } from '../support/calls.ts';
import { type TenantFixture, tenantFixture, withoutIngestWatch } from '../support/tenants.ts';
import { openWire, type Wire } from '../support/wire.ts';

let fixture: TenantFixture;
let wire: Wire;
let snapshotBefore: Record<string, string>;

beforeAll(async () => {
  fixture = await tenantFixture({ composition: withoutIngestWatch });
  wire = openWire(fixture.url);
  snapshotBefore = await fixture.tables.snapshot();
});
afterAll(async () => {
  wire.close();
  await fixture.stop();
});

const admin = () => ({ authorization: `Bearer ${fixture.token}` });

it.each(routesWith((route) => route.body ?? route.extra_content_types))(
  '$name refuses a body over its limit',
  async ({ name, route }) => {
    const limit = route.body_limit_bytes ?? 256 * 1024;
    const type =
      route.extra_content_types?.[0] === 'application/x-ndjson' ? 'application/x-ndjson' : 'application/json';
    const answer = await wire.send(
      route.method,
      pathOf(route),
      { ...bearerFor(name, fixture), 'content-type': type },
      `"${'a'.repeat(limit)}"`,
    );
    expectProblem(answer, 'body_too_large');
  },
);

it('refuses deeply nested JSON', async () => {
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
  ['an alias loop', '&a [*a]'],
  ['multiplying aliases', `a: &a [1,1,1,1,1,1,1,1]\nb: &b [${'*a,'.repeat(60)}*a]\ndriver: external`],
  ['NaN', 'driver: external\nmax_nodes: .nan'],
  ['binary data', 'driver: !!binary aGk='],
  ['two documents', 'driver: external\n---\ndriver: external'],
  ['a `__proto__` key', 'driver: external\n__proto__: {a: 1}'],
  ['many open brackets', '['.repeat(20_000)],
  ['NUL', 'driver: external\nzone: "a\\0b"'],
  ['a tab', '\tdriver: external'],
])('refuses YAML with %s', async (_, body) => {
  const answer = await wire.send('PUT', '/v1/pools/outside', { ...admin(), 'content-type': 'application/yaml' }, body);
  expectProblem(answer, ['malformed_json', 'invalid_request']);
});

it.each([
  ['no content', '', 'invalid_request'],
  ['invalid JSON', 'hello\n', 'malformed_json'],
  [
    'NUL',
    `${JSON.stringify({ seq: 1, at: '2030-01-01T00:00:00Z', stream: 'stdout', line: 'a\0b' })}\n`,
    'invalid_request',
  ],
  ['too large a number', `{"seq":1e300,"at":"2030-01-01T00:00:00Z","stream":"stdout","line":"a"}\n`, 'invalid_request'],
  ['an invalid date', `{"seq":1,"at":"2030-02-31T00:00:00Z","stream":"stdout","line":"a"}\n`, 'invalid_request'],
  ['an unknown stream', `{"seq":1,"at":"2030-01-01T00:00:00Z","stream":"secret","line":"a"}\n`, 'invalid_request'],
  ['too many lines', '{}\n'.repeat(5_001), 'body_too_large'],
] as const)('refuses log lines with %s', async (_, body, code) => {
  const answer = await wire.send(
    'POST',
    '/v1/agent/logs',
    { authorization: `Bearer ${fixture.acme.machine.credential}`, 'content-type': 'application/x-ndjson' },
    body,
  );
  expectProblem(answer, code);
});

it('answers each invalid call with the code of its fault', async () => {
  const { allocation } = fixture.acme;
  const call = (path: string, method = 'POST', body?: string) =>
    wire.send(method, path, { ...admin(), ...(body && json) }, body);
  const cases: [Promise<Answer>, ErrorCode][] = [
    [call(`/v1/allocations/${allocation.allocation_id}/retry`), 'action_illegal'],
    [call(`/v1/operations/${allocation.workflow_id}/cancel`), 'operation_ended'],
    [call(`/v1/operations/${allocation.workflow_id}/retry`), 'action_illegal'],
    [call('/v1/allocations', 'POST', '{"pool":"no-such-pool"}'), 'pool_not_found'],
    [call('/v1/nodes', 'POST', '{"pool":"local"}'), 'pool_not_external'],
    [call('/v1/nodes', 'POST', '{"pool":"outside","name":"acme-machine"}'), 'name_taken'],
    [call('/v1/pools/local/join-tokens', 'POST', '{}'), 'pool_not_external'],
    [call('/v1/pools/outside', 'DELETE'), 'pool_in_use'],
    [call('/v1/pools/outside', 'PUT', '{"driver":"local"}'), 'driver_fixed'],
    [call('/v1/pools/fresh', 'PUT', '{"driver":"../local"}'), 'driver_unknown'],
    [call('/v1/pools/fresh', 'PUT', '{"driver":"external","name":"other"}'), 'invalid_request'],
    [call('/v1/pools/fresh', 'PUT', '{"driver":"local","spec":{"command":"rm -rf /"}}'), 'invalid_spec'],
    [call('/v1/tokens/tok_none', 'DELETE'), 'token_not_found'],
    [call('/v1/timeline', 'GET'), 'invalid_request'],
    [call('/v1/nodes?cursor=%27', 'GET'), 'invalid_cursor'],
    [call('/v1/audit?cursor=99999999999999999999-1', 'GET'), 'invalid_cursor'],
    [call('/v1/session', 'DELETE', '{"unknown":1}'), 'invalid_request'],
  ];
  for (const [answer, code] of cases) expectProblem(await answer, code);
  const retry = await call(`/v1/operations/${allocation.workflow_id}/retry`);
  expect(retry.body.detail).toBe('The operation is succeeded; only a failed one can be retried.');
});

it('refuses methods that a path does not support and lists the allowed ones; unknown paths are not found', async () => {
  const answer = await wire.send('PATCH', '/v1/nodes/node_x', { ...admin(), 'content-type': 'x/y' }, 'anything');
  expectProblem(answer, 'method_not_allowed');
  expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS');
  for (const method of ['PUT', 'DELETE', 'TRACE', 'PROPFIND', 'SEARCH'])
    expectProblem(await wire.send(method, '/v1/allocations', admin()), 'method_not_allowed', method);
  for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1//nodes', '/compat/x', '/docs/nothing'])
    expectProblem(await wire.send('GET', path, admin()), 'not_found', path);
  expectProblem(await wire.send('POST', '/nothing', { ...admin(), 'content-type': 'x/y' }, 'x'), 'not_found');
});

it('answers OPTIONS with the allowed methods, and HEAD like GET except for streams', async () => {
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
  ['a missing method', ' / HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
  ['an unknown method', 'BREW /v1/nodes HTTP/1.1\r\nhost: localhost\r\n\r\n', 400],
  ['a line that is not HTTP', 'hello\r\n\r\n', 400],
  ['an oversized header', `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`, 431],
  [
    'two Content-Length headers',
    'POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n',
    400,
  ],
  [
    'both Content-Length and chunked encoding',
    'POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n',
    400,
  ],
  [
    'a broken chunk',
    'POST /v1/session HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\nzz\r\n',
    400,
  ],
  ['a missing Host header', 'GET /v1/nodes HTTP/1.1\r\nconnection: close\r\n\r\n', 403],
  ['another host', 'GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n', 403],
  ['a bad escape', 'GET /v1/nodes/%ZZ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n', 400],
  [
    'an overlong name',
    `GET /v1/nodes/${'a'.repeat(400)} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
    400,
  ],
  ['NUL in a header', 'GET /v1/nodes HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n', 400],
])('refuses %s on the wire', async (_, bytes, status) => {
  const text = await wire.sendBytes(bytes);
  const [head = '', body = ''] = text.split('\r\n\r\n');
  expect(head, text).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head.toLowerCase()).toContain('content-type: application/problem+json');
  for (const [name, value] of Object.entries(commonHeaders)) expect(head).toContain(`${name}: ${value}`);
  const problem = JSON.parse(body);
  expect(problem).toMatchObject({ status, correlation_id: expect.any(String) });
});

it('has changed nothing after all these requests', async () => {
  expect(await fixture.tables.snapshot()).toEqual(snapshotBefore);
});
