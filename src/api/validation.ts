/** Requests and replies against their schemas, compiled once. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { Value } from 'typebox/value';
import { ApiProblem, type ErrorCode } from '../contract/errors.ts';

export type Check = (value: unknown) => unknown;

const mostErrors = 20;

function problemsOf(validator: ReturnType<typeof Compile>, value: unknown, where: string) {
  return [...validator.Errors(value)]
    .slice(0, mostErrors)
    .map((error) => ({ path: `${where}${error.instancePath}` || '/', message: error.message }));
}

/** Gives back the value when it fits; throws a problem that names every field that does not. */
export function compileCheck(
  schema: TSchema,
  where: 'body' | 'query' | 'path',
  code: ErrorCode = 'invalid_request',
): Check {
  const validator = Compile(schema);
  // Addresses carry text only, so numbers and booleans in them are read from text first; bodies are taken as they are.
  const read =
    where === 'body' ? (value: unknown) => value : (value: unknown) => Value.Convert(schema, { ...(value as object) });
  return (value) => {
    const read_value = read(value);
    if (validator.Check(read_value)) return read_value;
    const errors = problemsOf(validator, read_value, `/${where}`);
    const first = errors[0];
    throw new ApiProblem(code, {
      detail: first ? `${first.path} ${first.message}.` : 'The request does not match its schema.',
      errors,
    });
  };
}

/** A reply that does not fit its schema is our defect, found here and not by a client. */
export function compileReply(schema: TSchema): (value: unknown) => void {
  const validator = Compile(schema);
  return (value) => {
    if (validator.Check(value)) return;
    throw new Error(`a reply does not match its schema: ${JSON.stringify(problemsOf(validator, value, ''))}`);
  };
}
