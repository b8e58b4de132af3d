/**
 * Converts schemas for the document. Named schemas appear once under `components`, and request
 * texts are restricted to what the server accepts.
 */
import type { TSchema } from 'typebox';
import { withoutNul } from '../primitives.ts';

type Json = Record<string, unknown>;

const plainData = 'PlainData';
const plainDataRef = { $ref: `#/components/schemas/${plainData}` };
const plainNames = { propertyNames: { pattern: withoutNul } };

/** Any JSON value that PostgreSQL can store; others are refused (`api/http/plain-data.ts`). */
const plainDataSchema = {
  description: 'Any JSON value without NUL characters in texts or names, at most 32 levels deep.',
  type: ['null', 'boolean', 'number', 'string', 'array', 'object'],
  pattern: withoutNul,
  items: plainDataRef,
  ...plainNames,
  additionalProperties: plainDataRef,
};

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Collects the ids of all named schemas in `schema`. */
function collectNames(schema: unknown, found: Set<string>): void {
  if (Array.isArray(schema)) for (const each of schema) collectNames(each, found);
  if (!isObject(schema)) return;
  if (typeof schema.$id === 'string') found.add(schema.$id);
  for (const each of Object.values(schema)) collectNames(each, found);
}

const isAny = (value: unknown) => value === true || (isObject(value) && Object.keys(value).length === 0);

/** TypeBox renders a record with free names as one pattern that matches every name. */
const anyName = '^.*$';

/**
 * The keywords of a request schema, with text and free fields bounded to what the server accepts.
 */
function restrictToPlainData(schema: Json): Json {
  if (schema.type === 'string' && schema.pattern === undefined && !schema.enum)
    return { ...schema, pattern: withoutNul };
  if (schema.type !== 'object') return schema;
  const { patternProperties, ...rest } = schema;
  const free = isObject(patternProperties) ? patternProperties[anyName] : undefined;
  if (free !== undefined) return { ...rest, ...plainNames, additionalProperties: free };
  return schema.additionalProperties === true ? { ...schema, ...plainNames } : schema;
}

export interface SchemaRenderer {
  components: Json;
  /** Renders a schema for a request. */
  request(schema: TSchema): unknown;
  /** Renders a schema for a reply. */
  reply(schema: TSchema): unknown;
}

/** A schema that is part of any of `requests` is shown as a request everywhere. */
export function createSchemaRenderer(requests: readonly (TSchema | undefined)[]): SchemaRenderer {
  const components: Json = {};
  const requestNames = new Set<string>();
  collectNames(requests, requestNames);

  const render = (value: unknown, isRequest: boolean): unknown => {
    if (Array.isArray(value)) return value.map((each) => render(each, isRequest));
    if (!isObject(value)) return value;
    const { $id, ...keywords } = value;
    const asRequest = typeof $id === 'string' ? requestNames.has($id) : isRequest;
    const body = renderKeywords(asRequest ? restrictToPlainData(keywords) : keywords, asRequest);
    if (typeof $id !== 'string') return body;
    components[$id] = body;
    return { $ref: `#/components/schemas/${$id}` };
  };

  const renderNested = (value: unknown, isRequest: boolean): unknown => {
    if (!isRequest || !isAny(value)) return render(value, isRequest);
    components[plainData] = plainDataSchema;
    return plainDataRef;
  };

  const renderFields = (fields: unknown, isRequest: boolean) =>
    Object.fromEntries(Object.entries(fields as Json).map(([name, each]) => [name, renderNested(each, isRequest)]));

  /** Converts nested schemas; other keywords are values and stay as they are. */
  const renderKeywords = (schema: Json, isRequest: boolean): Json =>
    Object.fromEntries(
      Object.entries(schema).map(([keyword, value]) => {
        if (keyword === 'properties' || keyword === 'patternProperties')
          return [keyword, renderFields(value, isRequest)];
        if (keyword === 'items' || keyword === 'additionalProperties') return [keyword, renderNested(value, isRequest)];
        return [keyword, render(value, isRequest)];
      }),
    );

  return {
    components,
    request: (schema) => render(schema, true),
    reply: (schema) => render(schema, false),
  };
}
