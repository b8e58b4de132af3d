/** The OpenAPI 3.1 document, made from the same table and schemas that serve the requests. */
import type { TSchema } from 'typebox';
import { errorCatalogue } from './errors.ts';
import { Problem } from './problem.ts';
import type { RouteDeclaration } from './route.ts';
import { routes } from './routes.ts';

type Json = Record<string, unknown>;

/** Schemas with a name stand once, under components, and are referred to. */
function referTo(schema: unknown, components: Json): unknown {
  if (Array.isArray(schema)) return schema.map((each) => referTo(each, components));
  if (schema === null || typeof schema !== 'object') return schema;
  const { $id, ...rest } = schema as Json;
  const body = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, referTo(value, components)]));
  if (typeof $id !== 'string') return body;
  components[$id] = body;
  return { $ref: `#/components/schemas/${$id}` };
}

const propertiesOf = (schema: TSchema | undefined): Record<string, TSchema> =>
  (schema as { properties?: Record<string, TSchema> })?.properties ?? {};
const requiredOf = (schema: TSchema | undefined): string[] => (schema as { required?: string[] })?.required ?? [];

const parametersOf = (schema: TSchema | undefined, where: 'path' | 'query', components: Json) =>
  Object.entries(propertiesOf(schema)).map(([name, each]) => ({
    name,
    in: where,
    required: where === 'path' || requiredOf(schema).includes(name),
    schema: referTo(each, components),
  }));

function securityOf(route: RouteDeclaration): Json[] {
  if (route.access.kind === 'person') return [{ token: [] }, { session: [] }];
  return route.access.kind === 'agent' ? [{ instance_credential: [] }] : [];
}

/** One schema, whichever of its content types it comes in; lines have none, because each is an object of its own. */
function bodyOf(route: RouteDeclaration, components: Json): Json | undefined {
  if (!route.body && !route.also_reads) return undefined;
  const schema = route.body
    ? referTo(route.body, components)
    : { type: 'string', description: 'One JSON object a line.' };
  const types = [...(route.body ? ['application/json'] : []), ...(route.also_reads ?? [])];
  const schemaFor = (type: string) => (type === 'text/plain' ? { type: 'string' } : schema);
  return {
    content: Object.fromEntries(types.map((type) => [type, { schema: schemaFor(type) }])),
    required: !route.body_optional,
  };
}

function describe(name: string, route: RouteDeclaration, components: Json): Json {
  const role = route.access.kind === 'person' ? ` Role: ${route.access.role}.` : '';
  const body = bodyOf(route, components);
  const content = route.reply
    ? { 'application/json': { schema: referTo(route.reply, components) } }
    : route.reply_type
      ? { [route.reply_type]: {} }
      : undefined;
  return {
    operationId: name,
    summary: route.summary,
    description: `${route.summary}.${role}`,
    tags: [route.tag],
    security: securityOf(route),
    parameters: [...parametersOf(route.params, 'path', components), ...parametersOf(route.query, 'query', components)],
    ...(body && { requestBody: body }),
    responses: {
      [route.success]: { description: 'Done', ...(content && { content }) },
      default: {
        description: 'A problem of the catalogue',
        content: { 'application/problem+json': { schema: referTo(Problem, components) } },
      },
    },
  };
}

const made = new Map<string, Json>();

/** Made once: it is the same for every server of a version. */
export function openapiDocument(version: string): Json {
  const known = made.get(version) ?? makeDocument(version);
  made.set(version, known);
  return known;
}

function makeDocument(version: string): Json {
  const components: Json = {};
  const paths: Record<string, Json> = {};
  for (const [name, route] of Object.entries(routes)) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: describe(name, route, components) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Slipway',
      version,
      description: `A provisioning control plane that leaves no machine in limbo. Every error is one of ${Object.keys(errorCatalogue).length} catalogued problems.`,
    },
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'slipway_session',
          description: 'Over TLS its name is `__Host-slipway_session`.',
        },
        instance_credential: { type: 'http', scheme: 'bearer', description: "A node's instance credential" },
      },
    },
  };
}
