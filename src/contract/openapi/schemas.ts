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
function namesIn(schema: unknown, found: Set<string>): void {
  if (Array.isArray(schema)) for (const each of schema) namesIn(each, found);
  if (!isObject(schema)) return;
  if (typeof schema.$id === 'string') found.add(schema.$id);
  for (const each of Object.values(schema)) namesIn(each, found);
}

const isAny = (value: unknown) => value === true || (isObject(value) && Object.keys(value).length === 0);

/** TypeBox renders a record with free names as one pattern that matches every name. */
const anyName = '^.*$';

/**
 * The keywords of a request schema, with text and free fields bounded to what the server accepts.
 */
function plain(schema: Json): Json {
  if (schema.type === 'string' && schema.pattern === undefined && !schema.enum)
    return { ...schema, pattern: withoutNul };
  if (schema.type !== 'object') return schema;
  const { patternProperties, ...rest } = schema;
  const free = isObject(patternProperties) ? patternProperties[anyName] : undefined;
  if (free !== undefined) return { ...rest, ...plainNames, additionalProperties: free };
  return schema.additionalProperties === true ? { ...schema, ...plainNames } : schema;
}

export interface SchemaBook {
  components: Json;
  /** Renders a schema for a request. */
  request(schema: TSchema): unknown;
  /** Renders a schema for a reply. */
  reply(schema: TSchema): unknown;
}

/** A schema that is part of any of `requests` is shown as a request everywhere. */
export function createSchemaBook(requests: readonly (TSchema | undefined)[]): SchemaBook {
  const components: Json = {};
  const sent = new Set<string>();
  namesIn(requests, sent);

  const show = (value: unknown, isRequest: boolean): unknown => {
    if (Array.isArray(value)) return value.map((each) => show(each, isRequest));
    if (!isObject(value)) return value;
    const { $id, ...keywords } = value;
    const asRequest = typeof $id === 'string' ? sent.has($id) : isRequest;
    const body = showKeywords(asRequest ? plain(keywords) : keywords, asRequest);
    if (typeof $id !== 'string') return body;
    components[$id] = body;
    return { $ref: `#/components/schemas/${$id}` };
  };

  const anything = (value: unknown, isRequest: boolean): unknown => {
    if (!isRequest || !isAny(value)) return show(value, isRequest);
    components[plainData] = plainDataSchema;
    return plainDataRef;
  };

  const showEach = (fields: unknown, isRequest: boolean) =>
    Object.fromEntries(Object.entries(fields as Json).map(([name, each]) => [name, anything(each, isRequest)]));

  /** Converts nested schemas; other keywords are values and stay as they are. */
  const showKeywords = (schema: Json, isRequest: boolean): Json =>
    Object.fromEntries(
      Object.entries(schema).map(([keyword, value]) => {
        if (keyword === 'properties' || keyword === 'patternProperties') return [keyword, showEach(value, isRequest)];
        if (keyword === 'items' || keyword === 'additionalProperties') return [keyword, anything(value, isRequest)];
        return [keyword, show(value, isRequest)];
      }),
    );

  return {
    components,
    request: (schema) => show(schema, true),
    reply: (schema) => show(schema, false),
  };
}
