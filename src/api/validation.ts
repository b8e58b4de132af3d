/** Requests and replies against their schemas, compiled once. */
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { Value } from 'typebox/value';
import { ApiProblem, type ErrorCode } from '../contract/errors.ts';
import { faultIn } from './plain-data.ts';

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
  const isText = where !== 'body';
  const refuse = (errors: { path: string; message: string }[]) => {
    const [first] = errors;
    const detail = first ? `${first.path} ${first.message}.` : 'The request does not match its schema.';
    return new ApiProblem(code, { detail, errors });
  };
  return (given) => {
    const value = isText ? { ...(given as object) } : given;
    const fault = faultIn(value);
    if (fault) throw refuse([{ ...fault, path: `/${where}${fault.path}` }]);
    // Addresses carry text only, so numbers and booleans in them are read from text first; bodies are taken as they are.
    const read = isText ? Value.Convert(schema, value) : value;
    if (validator.Check(read)) return read;
    throw refuse(problemsOf(validator, read, `/${where}`));
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
