/** Everything that can go wrong, as one report: what, why, what to do, and under which correlation id. */
import { RequestRefused, ServerUnreachable } from '../contract/client.ts';
import { type ErrorEntry, errorCatalogue } from '../contract/errors.ts';
import type { Problem } from '../contract/problem.ts';
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
}

const local = { errors: [], owner_layer: null, correlation_id: null, status: null };

const catalogueEntry = (code: string): ErrorEntry | undefined =>
  Object.entries(errorCatalogue).find(([name]) => name === code)?.[1];

function exitOfProblem(problem: Problem): ExitName {
  if (problem.status < 500) return 'refused';
  return problem.status === 503 ? 'unreachable' : 'failed';
}

const whereTokensComeFrom =
  'Give a token with --token-file or SLIPWAY_TOKEN; on the server’s own host, --data-dir finds its admin.token.';

function remedyOf(problem: Problem): string | null {
  // The catalogue speaks to every client; here it is known how a person at this prompt can follow it.
  if (problem.status === 401) return whereTokensComeFrom;
  const remedy = catalogueEntry(problem.code)?.remedy ?? null;
  const seconds = problem.retry_after_seconds;
  return seconds === undefined ? remedy : (remedy ?? '').replaceAll('`retry_after_seconds`', `${seconds} s`);
}

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
      why: problem.detail === problem.title ? null : problem.detail,
      remedy: remedyOf(problem),
      errors: problem.errors ?? [],
      owner_layer: problem.owner_layer,
      correlation_id: problem.correlation_id,
      status: problem.status,
    };
  }
  if (error instanceof ServerUnreachable)
    return {
      ...local,
      exit: 'unreachable',
      code: 'unreachable',
      what: `No Slipway server answers at ${context.server ?? 'that address'}`,
      why: rootCause(error),
      remedy: 'Start one with `npm start`, or name another with --server or SLIPWAY_SERVER.',
      correlation_id: context.correlation_id,
    };
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
