/** Renders the OpenAPI 3.1 document from the tables and schemas that serve the requests. */
import { type TSchema, Type } from 'typebox';
import type { ProtocolAccess, ProtocolRoute } from '../compat/protocol.ts';
import { protocolRoutes } from '../compat/routes.ts';
import { type ErrorCode, errorCatalogue } from '../errors/errors.ts';
import { Problem } from '../errors/problem.ts';
import { nullable } from '../primitives.ts';
import type { Access, RouteDeclaration } from '../route.ts';
import { routes } from '../routes.ts';
import { linksOf } from './links.ts';
import { problemsByStatus, takesIdempotencyKey } from './problems.ts';
import { createSchemaRenderer, type SchemaRenderer } from './schemas.ts';
import { tags } from './tags.ts';

type Json = Record<string, unknown>;

/** The error body of both compatibility protocols. `code` is a code of our error catalogue. */
const ProtocolError = Type.Object({ error: Type.String(), code: Type.String() }, { $id: 'CompatError' });

const propertiesOf = (schema: TSchema | undefined): Record<string, TSchema> =>
  (schema as { properties?: Record<string, TSchema> })?.properties ?? {};
const requiredOf = (schema: TSchema | undefined): string[] => (schema as { required?: string[] })?.required ?? [];

const parametersOf = (schema: TSchema | undefined, where: 'path' | 'query', renderer: SchemaRenderer) =>
  Object.entries(propertiesOf(schema)).map(([name, each]) => ({
    name,
    in: where,
    required: where === 'path' || requiredOf(schema).includes(name),
    schema: renderer.request(each),
  }));

const idempotencyKey = { $ref: '#/components/parameters/IdempotencyKey' };

/** An empty requirement means that the call needs no header: its body holds the credential. */
const bodySecurity: Record<Extract<Access, { kind: 'body' }>['credential'], Json[]> = {
  token: [],
  enrolment: [{ instance_credential: [] }, {}],
  instances: [{ relay_token: [] }, {}],
  key: [],
};

function securityOf({ access }: RouteDeclaration): Json[] {
  switch (access.kind) {
    case 'public':
      return [];
    case 'person':
      return [{ token: [] }, { session: [] }];
    case 'agent':
      return [{ instance_credential: [] }, ...(access.relays ? [{ relay_token: [] }] : [])];
    case 'body':
      return bodySecurity[access.credential];
  }
}

const protocolSecurity: Record<ProtocolAccess, Json[]> = {
  join: [{ join_token: [] }, { join_key: [] }],
  instance: [{ instance_credential: [] }],
  either: [{ join_token: [] }, { join_key: [] }, { instance_credential: [] }],
};

/**
 * All content types share one schema, except plain text, which is a string, and NDJSON, which is a
 * list of lines.
 */
function bodyOf(route: RouteDeclaration, renderer: SchemaRenderer): Json | undefined {
  if (!route.body && !route.lines) return undefined;
  const types = [...(route.body ? ['application/json'] : []), ...(route.extra_content_types ?? [])];
  const schemaFor = (type: string) => {
    if (type === 'text/plain') return renderer.request(Type.String());
    return renderer.request((type === 'application/x-ndjson' ? route.lines : route.body) ?? Type.Unknown());
  };
  return {
    content: Object.fromEntries(types.map((type) => [type, { schema: schemaFor(type) }])),
    required: !route.body_optional,
  };
}

/** How problems are sent. `prefix` begins the names of their shared responses in `components`. */
interface ProblemForm {
  prefix: string;
  type: string;
  schema: TSchema;
}
const ownProblem: ProblemForm = { prefix: 'problem', type: 'application/problem+json', schema: Problem };
const protocolProblem: ProblemForm = { prefix: 'compat', type: 'application/json', schema: ProtocolError };

const retryAfterStatuses = new Set([408, 409, 425, 429, 503]);

function problemResponse(
  status: number,
  codes: readonly ErrorCode[],
  form: ProblemForm,
  renderer: SchemaRenderer,
): Json {
  return {
    description: codes.map((code) => `\`${code}\`: ${errorCatalogue[code].title}.`).join(' '),
    ...(retryAfterStatuses.has(status) && { headers: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } }),
    content: {
      [form.type]: {
        schema: { allOf: [renderer.reply(form.schema), { type: 'object', properties: { code: { enum: codes } } }] },
      },
    },
  };
}

/** The problem responses of an operation, shared by all operations with the same codes. */
const problemResponses = (name: string, form: ProblemForm, renderer: SchemaRenderer, shared: Json): Json =>
  Object.fromEntries(
    [...problemsByStatus(name)].map(([status, codes]) => {
      const key = [form.prefix, status, ...codes].join('.');
      shared[key] ??= problemResponse(status, codes, form, renderer);
      return [status, { $ref: `#/components/responses/${key}` }];
    }),
  );

function contentOf(route: RouteDeclaration, renderer: SchemaRenderer): Json | undefined {
  if (route.reply) return { 'application/json': { schema: renderer.reply(route.reply) } };
  return route.reply_type && { [route.reply_type]: { schema: { type: 'string' } } };
}

/**
 * A status can be both a reply and a problem: `/readyz` answers 503 with its checks, and during
 * shutdown with a problem.
 */
function withReply(
  responses: Json,
  status: string,
  description: string,
  content: Json | undefined,
  shared: Json,
): Json {
  const { $ref } = (responses[status] ?? {}) as { $ref?: string };
  const problem = $ref
    ? (shared[$ref.slice('#/components/responses/'.length)] as { headers?: Json; content: Json })
    : undefined;
  return {
    description,
    ...(problem?.headers && { headers: problem.headers }),
    ...(problem || content ? { content: { ...content, ...problem?.content } } : {}),
  };
}

function describeRoute(name: string, route: RouteDeclaration, renderer: SchemaRenderer, shared: Json): Json {
  const role = route.access.kind === 'person' ? ` Role: ${route.access.role}.` : '';
  const body = bodyOf(route, renderer);
  const content = contentOf(route, renderer);
  const problems = problemResponses(name, ownProblem, renderer, shared);
  const links = linksOf(name);
  const others = Object.entries(route.also_answers ?? {}).map(([status, description]) => [
    status,
    withReply(problems, status, description, content, shared),
  ]);
  return {
    operationId: name,
    summary: route.summary,
    description: `${route.summary}.${role}`,
    tags: [route.tag],
    security: securityOf(route),
    parameters: [
      ...parametersOf(route.params, 'path', renderer),
      ...parametersOf(route.query, 'query', renderer),
      ...(takesIdempotencyKey(route) ? [idempotencyKey] : []),
    ],
    ...(body && { requestBody: body }),
    responses: {
      [route.success]: {
        description: 'Done',
        ...(content && { content }),
        ...(Object.keys(links).length > 0 && { links }),
      },
      ...problems,
      ...Object.fromEntries(others),
    },
  };
}

const clientId = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The name that the client uses for its node.',
});

function describeProtocolRoute(name: string, route: ProtocolRoute, renderer: SchemaRenderer, shared: Json): Json {
  const params = route.path.includes('{id}') ? Type.Object({ id: clientId }) : undefined;
  return {
    operationId: name,
    summary: route.summary,
    description: `${route.summary}. A join token may also be part of the URL, after \`/compat/${route.protocol}\`.`,
    tags: [`compat-${route.protocol}`],
    security: protocolSecurity[route.access],
    parameters: parametersOf(params, 'path', renderer),
    ...(route.body && {
      requestBody: {
        // Clients of these protocols send `null` if they have no body.
        content: {
          'application/json': { schema: renderer.request(route.body_optional ? nullable(route.body) : route.body) },
        },
        required: !route.body_optional,
      },
    }),
    responses: {
      [route.success]: {
        description: 'Done',
        content: { 'application/json': { schema: renderer.reply(route.reply) } },
      },
      ...problemResponses(name, protocolProblem, renderer, shared),
    },
  };
}

const securitySchemes = {
  token: { type: 'http', scheme: 'bearer', description: 'The token of a person or a program' },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'slipway_session',
    description: 'Over TLS its name is `__Host-slipway_session`.',
  },
  instance_credential: { type: 'http', scheme: 'bearer', description: "A node's instance credential" },
  relay_token: { type: 'http', scheme: 'bearer', description: "A relay's token" },
  join_token: { type: 'http', scheme: 'bearer', description: 'A join token of the pool' },
  join_key: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'A join token of the pool' },
};

const headers = {
  RetryAfter: { description: 'Seconds to wait before the next try, if known.', schema: { type: 'integer' } },
};

const parameters = {
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: 'A repeat with the same key and body gets the first reply again. Keys are kept per token for a day.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  },
};

const description = `A provisioning control plane that leaves no machine in limbo.

Every error is \`application/problem+json\` with one of ${Object.keys(errorCatalogue).length} catalogued codes (\`/docs/errors\`); below \`/compat\` it is \`{error, code}\`. Each operation lists the codes that it can answer.

Text must be well-formed Unicode without NUL. The patterns of text exclude NUL. Unpaired surrogates (\`\\ud800\`) are refused with 400 \`invalid_request\`. The patterns do not exclude them, because some regular-expression engines reject such a pattern.`;

const documents = new Map<string, Json>();

/** Cached, because the document is the same for every request. */
export function openapiDocument(version: string): Json {
  const document = documents.get(version) ?? buildDocument(version);
  documents.set(version, document);
  return document;
}

function buildDocument(version: string): Json {
  const ownRoutes = Object.entries<RouteDeclaration>(routes);
  const compatRoutes = Object.entries<ProtocolRoute>(protocolRoutes);
  const renderer = createSchemaRenderer([
    ...ownRoutes.flatMap(([, { params, query, body, lines }]) => [params, query, body, lines]),
    ...compatRoutes.map(([, { body }]) => body),
  ]);
  const responses: Json = {};
  const paths: Record<string, Json> = {};
  const add = (path: string, method: string, operation: Json) => {
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  };
  for (const [name, route] of ownRoutes) add(route.path, route.method, describeRoute(name, route, renderer, responses));
  for (const [name, route] of compatRoutes)
    add(
      `/compat/${route.protocol}${route.path}`,
      route.method,
      describeProtocolRoute(name, route, renderer, responses),
    );
  return {
    openapi: '3.1.0',
    info: { title: 'Slipway', version, description, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/', description: 'The server that serves this document' }],
    tags: Object.entries(tags).map(([name, text]) => ({ name, description: text })),
    paths,
    components: { schemas: renderer.components, responses, headers, parameters, securitySchemes },
  };
}
