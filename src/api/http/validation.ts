/** Validates requests and replies against their schemas, compiled once. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { ApiProblem, type ErrorCode } from '../../contract/errors/errors.ts';
import { notBlank } from '../../contract/primitives.ts';
import type { Refusal } from '../../contract/route.ts';
import { findFault } from './plain-data.ts';

export type Check = (value: unknown) => unknown;

const maxErrors = 20;
/** The caller chooses the keys of a body, and a refusal must not repeat a whole body. */
const maxNamedKeys = 10;
const maxKeyLength = 64;
const maxPathLength = 256;

const shorten = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text);

function namesOf(keys: readonly string[]): string {
  const names = keys.slice(0, maxNamedKeys).map((key) => shorten(key, maxKeyLength));
  return names.join(', ') + (keys.length > maxNamedKeys ? ` and ${keys.length - maxNamedKeys} more` : '');
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

/** Unlike the validator's own messages, names the unknown keys and the allowed values. */
function messageOf({ keyword, message, params }: SchemaError): string {
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
 * The validator reports an unknown key twice: at the key and at its parent. The report at the
 * parent is dropped.
 */
function isReportedAtKey({ keyword, instancePath, params }: SchemaError, errors: SchemaError[]): boolean {
  if (keyword !== 'additionalProperties') return false;
  const { additionalProperties: keys = [] } = (params ?? {}) as { additionalProperties?: string[] };
  const keyPaths = new Set(errors.filter((each) => each.keyword === 'boolean').map((each) => each.instancePath));
  return keys.length > 0 && keys.every((key) => keyPaths.has(`${instancePath}/${key}`));
}

const toFieldErrors = (errors: SchemaError[], where: string): FieldError[] =>
  errors
    .filter((error) => !isReportedAtKey(error, errors))
    .slice(0, maxErrors)
    .map((error) => ({
      path: shorten(`${where}${error.instancePath}`, maxPathLength) || '/',
      message: messageOf(error),
    }));

const isAt = (pattern: string, pointer: string) => {
  const [patternParts, parts] = [pattern.split('/'), pointer.split('/')];
  return (
    patternParts.length === parts.length && patternParts.every((part, index) => part === '*' || part === parts[index])
  );
};

/** The first error decides the code, since `detail` shows the first error. */
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
 * Parses numbers and booleans in an address, which consists of text only. Bodies are not converted.
 */
function parseTexts(schema: TSchema, fields: Record<string, unknown>): Record<string, unknown> {
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

/** Compiles a schema on first use. */
function validatorOf(schema: TSchema): Validator {
  const cached = validators.get(schema);
  if (cached) return cached;
  const validator = Compile(schema);
  validators.set(schema, validator);
  return validator;
}

const maxItems = 200;
const maxItemsInList = 20;
/** Above the 4096 items that a schema allows at most, so that a longer list still fails. */
const maxItemsForLength = 5_000;

/** The validator takes far longer to list errors than to find that there are any. */
function truncate(value: unknown, max = maxItems): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.slice(0, max).map((item) => truncate(item, Math.min(max, maxItemsInList)));
  const fields = Object.entries(value).slice(0, max);
  return Object.fromEntries(fields.map(([key, item]) => [key, truncate(item, max)]));
}

/**
 * Validates the beginning of long lists first, which usually finds the error. If it finds none,
 * validates more of each list, to find lists that are too long.
 */
function findFirstErrors(validator: Validator, value: unknown): SchemaError[] {
  const errors = validator.Errors(truncate(value));
  return errors.length > 0 ? errors : validator.Errors(truncate(value, maxItemsForLength));
}

/** The check returns the value if it matches, and throws a problem that names the wrong fields. */
export function compileCheck(
  schema: TSchema,
  where: 'body' | 'query' | 'path',
  code: ErrorCode = 'invalid_request',
  refusals: readonly Refusal[] = [],
): Check {
  const isText = where !== 'body';
  const refuse = (errors: FieldError[], errorCode = code) => {
    const [first] = errors;
    const detail = first ? `${first.path} ${first.message}.` : 'The request does not match its schema.';
    return new ApiProblem(errorCode, { detail, errors });
  };
  return (input) => {
    const value = isText ? { ...(input as object) } : input;
    const fault = findFault(value);
    if (fault) throw refuse([{ ...fault, path: shorten(`/${where}${fault.path}`, maxPathLength) }]);
    const parsedValue = isText ? parseTexts(schema, value as Record<string, unknown>) : value;
    const validator = validatorOf(schema);
    if (validator.Check(parsedValue)) return parsedValue;
    const errors = findFirstErrors(validator, parsedValue);
    throw refuse(toFieldErrors(errors, `/${where}`), codeOf(errors[0], refusals));
  };
}

/** A reply that does not match its schema is our bug; the check finds it before a client does. */
export function compileReply(schema: TSchema): (value: unknown) => void {
  return (value) => {
    const validator = validatorOf(schema);
    if (validator.Check(value)) return;
    throw new Error(`a reply does not match its schema: ${JSON.stringify(toFieldErrors(validator.Errors(value), ''))}`);
  };
}
