/**
 * Bad requests generated from the contract's own schemas, so that a new route is covered without
 * further work.
 */
import fc from 'fast-check';
import { fillPath } from '../../../src/contract/client.ts';
import type { ProtocolRoute } from '../../../src/contract/compat/protocol.ts';
import { protocolRoutes } from '../../../src/contract/compat/routes.ts';
import type { ErrorCode } from '../../../src/contract/errors/errors.ts';
import type { RouteDeclaration } from '../../../src/contract/route.ts';
import { type OperationName, routes } from '../../../src/contract/routes.ts';
import { asJson, brokenFor, brokenParameter, fitting, propertiesOf } from './broken-values.ts';
import type { TenantFixture } from './tenants.ts';

export interface BadRequest {
  name: OperationName;
  what: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
  codes?: ErrorCode[];
}

const table = Object.entries(routes) as [OperationName, RouteDeclaration][];
export const json = { 'content-type': 'application/json' };

/** Valid ids of nothing. */
const unknown = (route: RouteDeclaration) =>
  Object.fromEntries(
    propertiesOf(route.params).map(([key]) => [key, key === 'pool' ? 'no-such-pool' : 'none_0123456789']),
  );
export const pathOf = (route: RouteDeclaration, params = unknown(route)) => fillPath(route.path, params);

export const someOf = <T>(wanted: (route: RouteDeclaration) => T | undefined | false) =>
  table.flatMap(([name, route]) => (wanted(route) ? [{ name, route }] : []));

const brokenBodies = someOf((route) => route.body).map(({ name, route }) =>
  brokenFor(route.body ?? {}).map(
    (body): BadRequest => ({ name, what: 'body', path: pathOf(route), headers: json, body: asJson(body) }),
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
  fc.constantFrom(...malformed).map(
    (body): BadRequest => ({
      name,
      what: 'JSON',
      path: pathOf(route),
      headers: json,
      body,
      codes: ['malformed_json'],
    }),
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
    (type): BadRequest => ({
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
    .map(([params, body]): BadRequest => {
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

// A PUT creates what is missing; for all other routes an unknown id is an error.
const unknownIds = someOf((route) => route.params && route.method !== 'PUT').map(({ name, route }) =>
  bodyThatFits(route).map(
    (body): BadRequest => ({
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
    .map((query): BadRequest => ({ name, what: 'query', path: `${pathOf(route)}?${query}`, headers: {} }));
});

const takesKey = (route: RouteDeclaration) =>
  route.method !== 'GET' && route.access.kind === 'person' && !route.reads_only;
const badKeys = someOf(takesKey).map(({ name, route }) =>
  fc.tuple(fc.constantFrom('', ' ', 'with space', 'k'.repeat(256), 'é', '\t'), bodyThatFits(route)).map(
    ([key, body]): BadRequest => ({
      name,
      what: 'idempotency key',
      path: pathOf(route),
      headers: { 'idempotency-key': key, ...(body !== undefined && json) },
      ...(body !== undefined && { body: asJson(body) }),
    }),
  ),
);

export const badRequests = fc.oneof(
  { arbitrary: fc.oneof(...brokenBodies), weight: 10 },
  { arbitrary: fc.oneof(...malformedBodies), weight: 2 },
  { arbitrary: fc.oneof(...wrongTypes), weight: 1 },
  { arbitrary: fc.oneof(...brokenPaths), weight: 4 },
  { arbitrary: fc.oneof(...unknownIds), weight: 1 },
  { arbitrary: fc.oneof(...brokenQueries), weight: 5 },
  { arbitrary: fc.oneof(...badKeys), weight: 1 },
);

export const protocolBodies = (Object.entries(protocolRoutes) as [string, ProtocolRoute][]).flatMap(([name, route]) =>
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

/** The credential that a route needs: the request must be refused for its content alone. */
export function bearerFor(name: OperationName, fixture: TenantFixture): Record<string, string> {
  const { access }: RouteDeclaration = routes[name];
  if (access.kind === 'person') return { authorization: `Bearer ${fixture.token}` };
  return access.kind === 'agent' ? { authorization: `Bearer ${fixture.acme.machine.credential}` } : {};
}
