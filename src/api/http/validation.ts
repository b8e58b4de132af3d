/** Validates requests and replies against their schemas, compiled once. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { ApiProblem, type ErrorCode } from '../../contract/errors/errors.ts';
import { notBlank } from '../../contract/primitives.ts';
import type { Refusal } from '../../contract/route.ts';
import { faultIn } from './plain-data.ts';

export type Check = (value: unknown) => unknown;

const maxErrors = 20;
/** The caller chooses the names; a refusal must not repeat a whole body. */
const maxNamedKeys = 10;
const maxKeyLength = 64;
const maxPathLength = 256;

const shortened = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text);

function namesOf(keys: readonly string[]): string {
  const named = keys.slice(0, maxNamedKeys).map((key) => shortened(key, maxKeyLength));
  return named.join(', ') + (keys.length > maxNamedKeys ? ` and ${keys.length - maxNamedKeys} more` : '');
}

interface FieldError {
  path: string;
  message: string;
}

interface SchemaError {
  instancePath: string;
  keyword: string;
  message: string;
  params?: unknown;
}

/** Names the unknown keys and the allowed values, which the validator's own messages do not. */
function wordsOf({ keyword, message, params }: SchemaError): string {
  const { additionalProperties, allowedValues } = (params ?? {}) as {
    additionalProperties?: string[];
    allowedValues?: unknown[];
  };
  if (keyword === 'additionalProperties' && additionalProperties?.length)
    return `has unknown fields: ${namesOf(additionalProperties)}`;
  if (keyword === 'enum' && allowedValues) return `must be one of ${allowedValues.join(', ')}`;
  if (keyword === 'pattern' && (params as { pattern?: unknown } | undefined)?.pattern === notBlank)
    return 'must not be blank';
  return keyword === 'boolean' ? 'is an unknown field' : message;
}

/**
 * The validator reports an unknown key at the key and at its parent; this drops the second report.
 */
function isReportedAtKey({ keyword, instancePath, params }: SchemaError, errors: SchemaError[]): boolean {
  if (keyword !== 'additionalProperties') return false;
  const { additionalProperties: keys = [] } = (params ?? {}) as { additionalProperties?: string[] };
  const reported = new Set(errors.filter((each) => each.keyword === 'boolean').map((each) => each.instancePath));
  return keys.length > 0 && keys.every((key) => reported.has(`${instancePath}/${key}`));
}

const fieldErrors = (errors: SchemaError[], where: string): FieldError[] =>
  errors
    .filter((error) => !isReportedAtKey(error, errors))
    .slice(0, maxErrors)
    .map((error) => ({
      path: shortened(`${where}${error.instancePath}`, maxPathLength) || '/',
      message: wordsOf(error),
    }));

const isAt = (pattern: string, pointer: string) => {
  const [wanted, given] = [pattern.split('/'), pointer.split('/')];
  return wanted.length === given.length && wanted.every((part, index) => part === '*' || part === given[index]);
};

/** The first error decides, since it is the one in `detail`. */
function codeOf(
  first: { instancePath: string; keyword: string } | undefined,
  refusals: readonly Refusal[],
): ErrorCode | undefined {
  return refusals.find(
    ({ at, when }) => first && isAt(at, first.instancePath) && when.some((keyword) => keyword === first.keyword),
  )?.code;
}

const numeral = /^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?$/;
const readers: Record<string, (text: string) => unknown> = {
  integer: (text) => (numeral.test(text) ? Number(text) : text),
  number: (text) => (numeral.test(text) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
};

/**
 * Addresses carry text only, so numbers and booleans are parsed from it. Bodies stay as they are.
 */
function fromText(schema: TSchema, fields: Record<string, unknown>): Record<string, unknown> {
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> };
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => {
      const read = Object.hasOwn(properties, key) ? readers[properties[key]?.type ?? ''] : undefined;
      return [key, read && typeof value === 'string' ? read(value) : value];
    }),
  );
}

type Validator = ReturnType<typeof Compile<TSchema>>;
const validators = new WeakMap<TSchema, Validator>();

/** Compiled on first use, once per schema. */
function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema);
  if (known) return known;
  const made = Compile(schema);
  validators.set(schema, made);
  return made;
}

const maxItems = 200;
const maxItemsInList = 20;

/** Naming errors takes the validator many times as long as finding that there are some. */
function truncated(value: unknown, max = maxItems): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.slice(0, max).map((item) => truncated(item, Math.min(max, maxItemsInList)));
  const fields = Object.entries(value).slice(0, max);
  return Object.fromEntries(fields.map(([key, item]) => [key, truncated(item, max)]));
}

/**
 * Validates the beginning of long lists first, which usually finds the error; then more of them, to
 * find lists that are too long.
 */
function firstErrors(validator: Validator, value: unknown): SchemaError[] {
  const errors = validator.Errors(truncated(value));
  return errors.length > 0 ? errors : validator.Errors(truncated(value, 5_000));
}

/** Returns the value if it matches; throws a problem that names every wrong field. */
export function compileCheck(
  schema: TSchema,
  where: 'body' | 'query' | 'path',
  code: ErrorCode = 'invalid_request',
  refusals: readonly Refusal[] = [],
): Check {
  const isText = where !== 'body';
  const refuse = (errors: FieldError[], own = code) => {
    const [first] = errors;
    const detail = first ? `${first.path} ${first.message}.` : 'The request does not match its schema.';
    return new ApiProblem(own, { detail, errors });
  };
  return (given) => {
    const value = isText ? { ...(given as object) } : given;
    const fault = faultIn(value);
    if (fault) throw refuse([{ ...fault, path: shortened(`/${where}${fault.path}`, maxPathLength) }]);
    const read = isText ? fromText(schema, value as Record<string, unknown>) : value;
    const validator = validatorOf(schema);
    if (validator.Check(read)) return read;
    const errors = firstErrors(validator, read);
    throw refuse(fieldErrors(errors, `/${where}`), codeOf(errors[0], refusals));
  };
}

/** A reply that does not match its schema is our bug; this finds it before a client does. */
export function compileReply(schema: TSchema): (value: unknown) => void {
  return (value) => {
    const validator = validatorOf(schema);
    if (validator.Check(value)) return;
    throw new Error(`a reply does not match its schema: ${JSON.stringify(fieldErrors(validator.Errors(value), ''))}`);
  };
}
