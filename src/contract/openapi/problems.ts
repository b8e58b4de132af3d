/**
 * The problems that each route can return: those implied by its declaration, and those it lists.
 * The OpenAPI document uses them, and the server reports any other problem as a defect
 * (`api/http/replies/undocumented.ts`).
 */
import type { ProtocolRoute } from '../compat/protocol.ts';
import { protocolRoutes } from '../compat/routes.ts';
import { type ErrorCode, errorCatalogue } from '../errors/errors.ts';
import { type Access, type RouteDeclaration, waitsForRestoration } from '../route.ts';
import { routes } from '../routes.ts';

/** Problems that any request can get: before routing, while it is read, or of the server itself. */
const anyRequest: readonly ErrorCode[] = [
  'malformed_request',
  'invalid_request',
  'origin_refused',
  'request_timeout',
  'headers_too_large',
  'rate_limited',
  'internal_error',
  'store_unavailable',
  'not_ready',
];

const tokenProblems: readonly ErrorCode[] = [
  'token_unknown',
  'token_expired',
  'too_many_failures',
  'role_insufficient',
];
const relayProblems: readonly ErrorCode[] = ['token_unknown', 'token_expired'];

function accessProblems(access: Access): readonly ErrorCode[] {
  switch (access.kind) {
    case 'public':
      return [];
    case 'person':
      return ['token_missing', ...tokenProblems, ...(access.tenants === 'none' ? ['scope_insufficient' as const] : [])];
    case 'agent':
      return [
        'token_missing',
        'credential_unknown',
        'credential_expired',
        'instance_fenced',
        ...(access.relays ? relayProblems : []),
      ];
    case 'body':
      if (access.credential === 'token') return tokenProblems;
      // Routes for enrolment or a signature list their own problems.
      return access.credential === 'instances' ? relayProblems : [];
  }
}

/** The error of a missing resource, by the path prefix that names the resource. */
const missingResources: readonly (readonly [prefix: string, code: ErrorCode])[] = [
  ['/v1/allocations/{id}', 'allocation_not_found'],
  ['/v1/nodes/{id}', 'node_not_found'],
  ['/v1/operations/{id}', 'operation_not_found'],
  ['/v1/pools/{pool}', 'pool_not_found'],
  ['/v1/secrets/{name}', 'secret_not_found'],
  ['/v1/sessions/{id}', 'session_not_found'],
  ['/v1/tokens/{id}', 'token_not_found'],
  ['/v1/drift/{id}', 'finding_not_found'],
  ['/v1/maintenance/{name}', 'maintenance_not_found'],
  ['/v1/residue/{id}', 'residue_not_found'],
  ['/v1/agent/tasks/{id}', 'task_not_found'],
];

/** Empty for a PUT, because it creates a missing resource. */
const resourceProblems = ({ path, method }: RouteDeclaration): ErrorCode[] =>
  method === 'PUT' ? [] : missingResources.filter(([prefix]) => path.startsWith(prefix)).map(([, code]) => code);

const hasCursor = ({ query }: RouteDeclaration): boolean =>
  Object.keys((query as { properties?: object } | undefined)?.properties ?? {}).some(
    (name) => name === 'cursor' || name === 'from',
  );

const bodyProblems: readonly ErrorCode[] = ['malformed_json', 'body_too_large', 'unsupported_media_type'];

/** Whether a repeat with the same `Idempotency-Key` returns the first answer. */
export const takesIdempotencyKey = ({ method, access, reads_only }: RouteDeclaration): boolean =>
  access.kind === 'person' && method !== 'GET' && !reads_only;

function methodProblems(route: RouteDeclaration): ErrorCode[] {
  // Lists are refused while the replica is overloaded.
  if (route.method === 'GET') return route.access.kind === 'person' ? ['server_busy'] : [];
  return [
    ...bodyProblems,
    ...(route.reads_only || route.access.kind === 'body' ? [] : ['write_limit_reached' as const]),
    ...(takesIdempotencyKey(route) ? (['idempotency_mismatch', 'idempotency_in_progress'] as const) : []),
  ];
}

const codesOf = (route: RouteDeclaration): Set<ErrorCode> =>
  new Set([
    ...anyRequest,
    ...accessProblems(route.access),
    ...resourceProblems(route),
    ...(hasCursor(route) ? ['invalid_cursor' as const] : []),
    ...methodProblems(route),
    ...(route.new_work ? ['resources_short' as const] : []),
    ...(waitsForRestoration(route) ? ['restoration_open' as const] : []),
    ...(route.refusals ?? []).map(({ code }) => code),
    ...(route.problems ?? []),
  ]);

const joinProblems: readonly ErrorCode[] = ['join_token_invalid', 'join_token_expired', 'join_token_spent'];
const credentialProblems: readonly ErrorCode[] = ['credential_unknown', 'credential_mismatch', 'instance_fenced'];

const protocolCodesOf = (route: ProtocolRoute): Set<ErrorCode> =>
  new Set([
    ...anyRequest,
    'token_missing',
    ...(route.access === 'instance' ? [] : joinProblems),
    ...(route.access === 'join' ? [] : credentialProblems),
    ...(route.method === 'GET' ? [] : bodyProblems),
    ...(route.problems ?? []),
  ]);

const documented = new Map<string, ReadonlySet<ErrorCode>>([
  ...Object.entries<RouteDeclaration>(routes).map(([name, route]) => [name, codesOf(route)] as const),
  ...Object.entries<ProtocolRoute>(protocolRoutes).map(([name, route]) => [name, protocolCodesOf(route)] as const),
]);

/** The problems that an operation documents; undefined if the operation is unknown. */
export const documentedProblems = (operation: string): ReadonlySet<ErrorCode> | undefined => documented.get(operation);

/** The documented problems by status, for the responses of the document. */
export const problemsByStatus = (operation: string): Map<number, ErrorCode[]> =>
  Map.groupBy([...(documented.get(operation) ?? [])].sort(), (code) => errorCatalogue[code].status);
