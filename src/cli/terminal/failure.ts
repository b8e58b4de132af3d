/** Turns every error into one report with reason and remedy, rendered as text or JSON. */
import { type IdKind, kindOfId } from '../../base/ids.ts';
import { fillRemedy, RequestRefused, ServerUnreachable } from '../../contract/client.ts';
import { type ErrorCode, type ErrorEntry, errorCatalogue } from '../../contract/errors/errors.ts';
import { errorName, faultOfError, type PathFaultCode, pathFaults } from '../../contract/errors/path-faults.ts';
import type { Problem } from '../../contract/errors/problem.ts';
import type { Fit } from '../render/text/table.ts';
import { flow, printable, wrap } from '../render/text/text.ts';
import { targetKindOf } from '../wait/subject.ts';
import { type ExitName, exitCodes } from './exit-codes.ts';

/** An error that the CLI detects itself. */
export class CliFailure extends Error {
  override name = 'CliFailure';
  readonly exit: ExitName;
  readonly why: string | null;
  readonly remedy: string | null;
  constructor(exit: ExitName, message: string, more: { why?: string; remedy?: string; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.exit = exit;
    this.why = more.why ?? null;
    this.remedy = more.remedy ?? null;
  }
}

/** Thrown on Ctrl-C to unwind every await. It is not a failure. */
export class Interrupted extends Error {
  override name = 'Interrupted';
}

export interface FailureReport {
  exit: ExitName;
  code: string;
  title: string;
  why: string | null;
  remedy: string | null;
  errors: { path: string; message: string }[];
  owner_layer: string | null;
  correlation_id: string | null;
  status: number | null;
}

/** The state of the command when it failed. A field is null if it was not resolved yet. */
export interface FailureContext {
  server: string | null;
  correlation_id: string | null;
  /** The data directory that was searched and has no token. */
  searched_directory?: string | undefined;
  /** The node, allocation, operation, finding or residue in the arguments. */
  id: string | null;
  /** The flags of the command, like `--reason`. */
  flags: readonly string[];
  commandLine(...words: string[]): string;
}

const withoutServer = { errors: [], owner_layer: null, correlation_id: null, status: null };

function exitOfProblem(problem: Problem): ExitName {
  if (problem.status < 500) return 'refused';
  return problem.status === 503 ? 'unreachable' : 'failed';
}

const tokenRemedy =
  'Give a token with --token-file or SLIPWAY_TOKEN; on the server’s own host, --data-dir finds its admin.token.';

/** The problem cannot name this directory: the CLI searched it, not the server. */
const noTokenIn = (directory: string) => ({
  why: `No token was given, and there is no admin.token in ${directory}.`,
  remedy: `Start the server with that data directory first, or name its directory with --data-dir. Or give a token with --token-file, --token or SLIPWAY_TOKEN.`,
});

/** Findings and residue have no `actions` command; these commands list the open ones. */
const listCommands: Partial<Record<IdKind, string>> = { finding: 'drift', residue: 'residue' };
function listCommandOf(id: string | null): string | undefined {
  const kind = kindOfId(id ?? '');
  return kind && listCommands[kind];
}

export const isId = (word: string): boolean => targetKindOf(word) !== null || listCommandOf(word) !== undefined;

/** The catalogue advises every client; these remedies name the command to type. */
const cliRemedies: Partial<
  Record<ErrorCode, (commandLine: FailureContext['commandLine'], id: string | null) => string>
> = {
  token_missing: () => tokenRemedy,
  token_unknown: () => tokenRemedy,
  token_expired: () => tokenRemedy,
  role_insufficient: () => 'Use a token with that role: --token-file or SLIPWAY_TOKEN.',
  action_illegal: (commandLine, id) => {
    const listCommand = listCommandOf(id);
    if (listCommand) return `It may be settled already. List the open ones: ${commandLine(listCommand)}`;
    return `See which actions are available now, and why the others are not: ${commandLine('actions', id ?? '<id>')}`;
  },
  pool_not_found: (commandLine) => `List the pools: ${commandLine('pools')}`,
  node_not_found: (commandLine) => `List the nodes: ${commandLine('nodes', '--all')}`,
  allocation_not_found: (commandLine) => `List the allocations: ${commandLine('allocations', '--all')}`,
  operation_not_found: (commandLine) => `List the operations: ${commandLine('operations')}`,
  hold_not_found: (commandLine) => `List the holds: ${commandLine('brake')}`,
  maintenance_not_found: (commandLine) => `List the windows: ${commandLine('maintenance')}`,
  token_not_found: (commandLine) => `List the tokens: ${commandLine('tokens')}`,
};

const isCatalogued = (code: string): code is ErrorCode => Object.hasOwn(errorCatalogue, code);

function remedyOf(problem: Problem, { commandLine, id }: FailureContext): string | null {
  if (!isCatalogued(problem.code)) return null;
  const entry: ErrorEntry = errorCatalogue[problem.code];
  return fillRemedy(cliRemedies[problem.code]?.(commandLine, id) ?? entry.remedy, problem);
}

/** Returns no errors if the detail already contains every message. */
const furtherErrors = ({ detail, errors = [] }: Problem) =>
  errors.every(({ message }) => detail.includes(message)) ? [] : errors;

/** Maps request fields to flags with another name. */
const flagsByField: Record<string, string> = {
  budget_seconds: '--budget',
  drain_then: '--then',
  labels: '--label',
  older_than_seconds: '--older-than',
  provision_timeout_seconds: '--timeout',
  stop_after_failures: '--stop-after',
};

/** Replaces each field of the request body by the flag of the command. */
const withFlagNames = (text: string, { flags }: FailureContext) =>
  text.replaceAll(/\/body(?:\/filter)?\/([a-z_]+)/g, (path, field: string) => {
    const flag = flagsByField[field] ?? `--${field.replaceAll('_', '-')}`;
    return flags.includes(flag) ? flag : path;
  });

/**
 * Returns the innermost message, which names the layer that failed. The outer errors only say that
 * a call failed.
 */
export function rootCause(error: unknown): string | null {
  if (error instanceof AggregateError && error.errors.length > 0) return rootCause(error.errors[0]);
  if (!(error instanceof Error)) return null;
  return rootCause(error.cause) ?? error.message;
}

const startRemedy = 'Start a server with `npm start`, or name another one with --server or SLIPWAY_SERVER.';

/** A server answered, so starting another one would not help. */
const securityFaults: ReadonlySet<PathFaultCode> = new Set([
  'ca_untrusted',
  'certificate_expired',
  'certificate_name_mismatch',
  'tls_failed',
]);

export function describeFailure(error: unknown, context: FailureContext): FailureReport {
  if (error instanceof CliFailure)
    return {
      ...withoutServer,
      exit: error.exit,
      code: error.exit,
      title: error.message,
      why: error.why,
      remedy: error.remedy,
    };
  if (error instanceof Interrupted)
    return {
      ...withoutServer,
      exit: 'interrupted',
      code: 'interrupted',
      title: 'Interrupted',
      why: null,
      remedy: null,
    };
  if (error instanceof RequestRefused) {
    const { problem } = error;
    return {
      exit: exitOfProblem(problem),
      code: problem.code,
      title: problem.title,
      why: problem.detail === problem.title ? null : withFlagNames(problem.detail, context),
      remedy: remedyOf(problem, context),
      errors: furtherErrors(problem).map((error) => ({ ...error, path: withFlagNames(error.path, context) })),
      owner_layer: problem.owner_layer,
      correlation_id: problem.correlation_id,
      status: problem.status,
      ...(problem.code === 'token_missing' && context.searched_directory && noTokenIn(context.searched_directory)),
    };
  }
  if (error instanceof ServerUnreachable) {
    const name = errorName(error.cause);
    const fault = name === null ? null : faultOfError(name);
    const server = context.server ?? 'that address';
    const isSecurity = fault !== null && securityFaults.has(fault);
    return {
      ...withoutServer,
      exit: 'unreachable',
      code: fault ?? 'unreachable',
      owner_layer: fault && pathFaults[fault].owner_layer,
      title: isSecurity ? `${pathFaults[fault].title}: ${server}` : `No Slipway server answers at ${server}`,
      why: rootCause(error),
      remedy: `${isSecurity ? pathFaults[fault].remedy : startRemedy} To find the layer that fails: ${context.commandLine('doctor')}`,
      correlation_id: context.correlation_id,
    };
  }
  return {
    ...withoutServer,
    exit: 'failed',
    code: 'defect',
    title: 'Internal error in the slipway command',
    why: error instanceof Error ? error.message : String(error),
    remedy: 'Run the command again with --debug and report the output.',
    correlation_id: context.correlation_id,
  };
}

const indent = '  ';

export function failureLines(report: FailureReport, fit: Fit): string[] {
  const { paint } = fit;
  const wrapIndented = (text: string) => wrap(printable(text), fit.width - indent.length).map((line) => indent + line);
  const facts = [
    report.status === null ? null : report.code,
    report.owner_layer && `owner: ${report.owner_layer}`,
    report.correlation_id && `correlation_id ${report.correlation_id}`,
  ].filter((fact): fact is string => typeof fact === 'string' && fact !== '');
  return [
    `${paint('bad', '✖')} ${paint('strong', printable(report.title))}`,
    ...(report.why ? wrapIndented(report.why) : []),
    ...report.errors.flatMap(({ path, message }) => wrapIndented(`${path || '(body)'}: ${message}`)),
    ...(report.remedy ? wrapIndented(`What to do: ${report.remedy}`) : []),
    ...flow(facts, fit.width - indent.length).map((line) => paint('quiet', indent + line)),
  ];
}

export const failureJson = (report: FailureReport) => ({
  error: {
    code: report.code,
    title: report.title,
    detail: report.why,
    remedy: report.remedy,
    ...(report.errors.length > 0 && { errors: report.errors }),
    owner_layer: report.owner_layer,
    correlation_id: report.correlation_id,
    status: report.status,
    exit_code: exitCodes[report.exit].code,
  },
});
