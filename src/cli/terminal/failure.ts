/** Everything that can go wrong, as one report: what, why, what to do, and under which correlation id. */
import { filledRemedy, RequestRefused, ServerUnreachable } from '../../contract/client.ts';
import { type ErrorCode, type ErrorEntry, errorCatalogue } from '../../contract/errors/errors.ts';
import { errorName, faultOfError, pathFaults } from '../../contract/errors/path-faults.ts';
import type { Problem } from '../../contract/errors/problem.ts';
import { kindOfId } from '../wait/subject.ts';
import type { ExitName } from './exit-codes.ts';

/** An operating error of the CLI itself. */
export class CliFailure extends Error {
  override name = 'CliFailure';
  readonly exit: ExitName;
  readonly why: string | null;
  readonly remedy: string | null;
  constructor(exit: ExitName, what: string, more: { why?: string; remedy?: string; cause?: unknown } = {}) {
    super(what, { cause: more.cause });
    this.exit = exit;
    this.why = more.why ?? null;
    this.remedy = more.remedy ?? null;
  }
}

/** The person pressed Ctrl-C; not an error, but it must leave every await on the way out. */
export class Interrupted extends Error {
  override name = 'Interrupted';
}

export interface FailureReport {
  exit: ExitName;
  code: string;
  what: string;
  why: string | null;
  remedy: string | null;
  errors: { path: string; message: string }[];
  owner_layer: string | null;
  correlation_id: string | null;
  status: number | null;
}

/** What the invocation knew; each is null before it was settled. */
export interface FailureContext {
  server: string | null;
  correlation_id: string | null;
  /** The data directory in which a token was looked for in vain. */
  looked_in?: string | undefined;
  /** The node, allocation, operation, finding or residue that was named. */
  id: string | null;
  /** Those of the command that ran, like `--reason`. */
  flags: readonly string[];
  commandLine(...words: string[]): string;
}

const local = { errors: [], owner_layer: null, correlation_id: null, status: null };

function exitOfProblem(problem: Problem): ExitName {
  if (problem.status < 500) return 'refused';
  return problem.status === 503 ? 'unreachable' : 'failed';
}

const whereTokensComeFrom =
  'Give a token with --token-file or SLIPWAY_TOKEN; on the server’s own host, --data-dir finds its admin.token.';

/** The server only knows that no token came; here it is known where one was expected. */
const noTokenIn = (directory: string) => ({
  why: `No token was given, and there is no admin.token in ${directory}.`,
  remedy: `Start the server with that data directory first, or name the one it has with --data-dir; else give a token with --token-file, --token or SLIPWAY_TOKEN.`,
});

/** What nobody lists actions for, by the prefix of its id: the command that shows what is open of it. */
const lists: Record<string, string> = { find: 'drift', res: 'residue' };
const listOf = (id: string | null): string | undefined => lists[id?.slice(0, id.indexOf('_')) ?? ''];

/** Whether a word of the command line is an id that advice can be about. */
export const isNamedThing = (word: string): boolean => kindOfId(word) !== null || listOf(word) !== undefined;

/** The catalogue speaks to every client; here it is known how a person at this prompt can follow it. */
const remediesHere: Partial<
  Record<ErrorCode, (commandLine: FailureContext['commandLine'], id: string | null) => string>
> = {
  token_missing: () => whereTokensComeFrom,
  token_unknown: () => whereTokensComeFrom,
  token_expired: () => whereTokensComeFrom,
  role_insufficient: () => 'Use a token with that role: --token-file or SLIPWAY_TOKEN.',
  action_illegal: (commandLine, id) => {
    const list = listOf(id);
    if (list) return `It may be settled by now. See what is still open: ${commandLine(list)}`;
    return `See what is open now, and why the rest is not: ${commandLine('actions', id ?? '<id>')}`;
  },
  pool_not_found: (commandLine) => `See which there are: ${commandLine('pools')}`,
  node_not_found: (commandLine) => `See which there are: ${commandLine('nodes', '--all')}`,
  allocation_not_found: (commandLine) => `See which there are: ${commandLine('allocations', '--all')}`,
  operation_not_found: (commandLine) => `See which there are: ${commandLine('operations')}`,
  hold_not_found: (commandLine) => `See what is held: ${commandLine('brake')}`,
  maintenance_not_found: (commandLine) => `See which there are: ${commandLine('maintenance')}`,
  token_not_found: (commandLine) => `See which there are: ${commandLine('tokens')}`,
};

const isCatalogued = (code: string): code is ErrorCode => Object.hasOwn(errorCatalogue, code);

function remedyOf(problem: Problem, { commandLine, id }: FailureContext): string | null {
  if (!isCatalogued(problem.code)) return null;
  const entry: ErrorEntry = errorCatalogue[problem.code];
  return filledRemedy(remediesHere[problem.code]?.(commandLine, id) ?? entry.remedy, problem);
}

/** The fields that the detail does not already name. */
const furtherErrors = ({ detail, errors = [] }: Problem) =>
  errors.every(({ message }) => detail.includes(message)) ? [] : errors;

/** Fields whose flag has another name. */
const flagsByField: Record<string, string> = {
  budget_seconds: '--budget',
  drain_then: '--then',
  labels: '--label',
  older_than_seconds: '--older-than',
  provision_timeout_seconds: '--timeout',
  stop_after_failures: '--stop-after',
};

/** Who typed a flag does not know the field of the body that it became. */
const namingFlags = (text: string, { flags }: FailureContext) =>
  text.replaceAll(/\/body(?:\/filter)?\/([a-z_]+)/g, (path, field: string) => {
    const flag = flagsByField[field] ?? `--${field.replaceAll('_', '-')}`;
    return flags.includes(flag) ? flag : path;
  });

/** The innermost cause names the layer that failed; what stands around it only says that a call did. */
export function rootCause(error: unknown): string | null {
  if (error instanceof AggregateError && error.errors.length > 0) return rootCause(error.errors[0]);
  if (!(error instanceof Error)) return null;
  return rootCause(error.cause) ?? error.message;
}

export function reportFailure(error: unknown, context: FailureContext): FailureReport {
  if (error instanceof CliFailure)
    return { ...local, exit: error.exit, code: error.exit, what: error.message, why: error.why, remedy: error.remedy };
  if (error instanceof Interrupted)
    return { ...local, exit: 'interrupted', code: 'interrupted', what: 'Interrupted', why: null, remedy: null };
  if (error instanceof RequestRefused) {
    const { problem } = error;
    return {
      exit: exitOfProblem(problem),
      code: problem.code,
      what: problem.title,
      why: problem.detail === problem.title ? null : namingFlags(problem.detail, context),
      remedy: remedyOf(problem, context),
      errors: furtherErrors(problem).map((error) => ({ ...error, path: namingFlags(error.path, context) })),
      owner_layer: problem.owner_layer,
      correlation_id: problem.correlation_id,
      status: problem.status,
      ...(problem.code === 'token_missing' && context.looked_in && noTokenIn(context.looked_in)),
    };
  }
  if (error instanceof ServerUnreachable) {
    const name = errorName(error.cause);
    return {
      ...local,
      exit: 'unreachable',
      code: name === null ? 'unreachable' : faultOfError(name),
      owner_layer: name === null ? null : pathFaults[faultOfError(name)].owner_layer,
      what: `No Slipway server answers at ${context.server ?? 'that address'}`,
      why: rootCause(error),
      remedy: `Start one with \`npm start\`, or name another with --server or SLIPWAY_SERVER; ${context.commandLine('doctor')} says which layer fails.`,
      correlation_id: context.correlation_id,
    };
  }
  return {
    ...local,
    exit: 'failed',
    code: 'defect',
    what: 'The slipway command made a mistake',
    why: error instanceof Error ? error.message : String(error),
    remedy: 'Run it again with --debug and report what that prints.',
    correlation_id: context.correlation_id,
  };
}
