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
import { asJson, invalidParameter, invalidValuesFor, propertiesOf, validValues } from './broken-values.ts';
import type { TenantFixture } from './tenants.ts';

export interface BadRequest {
  name: OperationName;
  what: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
  codes?: ErrorCode[];
}

const routeTable = Object.entries(routes) as [OperationName, RouteDeclaration][];
export const json = { 'content-type': 'application/json' };

/** Well-formed ids that name nothing. */
const unknownParams = (route: RouteDeclaration) =>
  Object.fromEntries(
    propertiesOf(route.params).map(([key]) => [key, key === 'pool' ? 'no-such-pool' : 'none_0123456789']),
  );
export const pathOf = (route: RouteDeclaration, params = unknownParams(route)) => fillPath(route.path, params);

export const routesWith = <T>(select: (route: RouteDeclaration) => T | undefined | false) =>
  routeTable.flatMap(([name, route]) => (select(route) ? [{ name, route }] : []));

const brokenBodies = routesWith((route) => route.body).map(({ name, route }) =>
  invalidValuesFor(route.body ?? {}).map(
    (body): BadRequest => ({ name, what: 'body', path: pathOf(route), headers: json, body: asJson(body) }),
  ),
);

const malformedJson = [
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
const malformedBodies = routesWith((route) => route.body).map(({ name, route }) =>
  fc.constantFrom(...malformedJson).map(
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

const unsupportedTypes = [
  'text/plain',
  'application/xml',
  'multipart/form-data; boundary=x',
  'application/x-ndjson',
  'application/json5',
  'x',
  'text/html; charset=utf-7',
];
const wrongTypes = routesWith((route) => route.body && !route.extra_content_types).map(({ name, route }) =>
  fc.constantFrom(...unsupportedTypes).map(
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

const validBody = (route: RouteDeclaration) => (route.body ? validValues(route.body) : fc.constant(undefined));

const brokenPaths = routesWith((route) => route.params).map(({ name, route }) =>
  fc
    .tuple(
      fc.record(Object.fromEntries(propertiesOf(route.params).map(([key, each]) => [key, invalidParameter(each)]))),
      validBody(route),
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

// A PUT creates a missing resource. All other routes must refuse an unknown id.
const unknownIds = routesWith((route) => route.params && route.method !== 'PUT').map(({ name, route }) =>
  validBody(route).map(
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
const brokenQueries = routesWith((route) => route.method === 'GET').map(({ name, route }) => {
  const fields = propertiesOf(route.query);
  const invalidFields = fields.map(([key, each]) => invalidParameter(each).map((value) => `${key}=${value}`));
  const repeatedFields = fields.map(([key]) => fc.constant(`${key}=1&${key}=2`));
  return fc
    .oneof(fc.constantFrom(...strangeQueries), ...invalidFields, ...repeatedFields)
    .map((query): BadRequest => ({ name, what: 'query', path: `${pathOf(route)}?${query}`, headers: {} }));
});

const acceptsIdempotencyKey = (route: RouteDeclaration) =>
  route.method !== 'GET' && route.access.kind === 'person' && !route.reads_only;
const badKeys = routesWith(acceptsIdempotencyKey).map(({ name, route }) =>
  fc.tuple(fc.constantFrom('', ' ', 'with space', 'k'.repeat(256), 'é', '\t'), validBody(route)).map(
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
            { arbitrary: invalidValuesFor(route.body).map(asJson), weight: 5 },
            { arbitrary: fc.constantFrom(...malformedJson), weight: 1 },
          )
          .filter((body) => body !== 'null' || !route.body_optional)
          .map((body) => ({ name, route, body })),
      ]
    : [],
);

/** The credential that a route needs, so that the server refuses a request only for its content. */
export function bearerFor(name: OperationName, fixture: TenantFixture): Record<string, string> {
  const { access }: RouteDeclaration = routes[name];
  if (access.kind === 'person') return { authorization: `Bearer ${fixture.token}` };
  return access.kind === 'agent' ? { authorization: `Bearer ${fixture.acme.machine.credential}` } : {};
}
