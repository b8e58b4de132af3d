/** Explains a failed start: the failure, its reason, and the remedy. */
import { SettingsError } from '../../base/settings/flag-values.ts';
import { serverUsage } from '../../base/settings/settings.ts';
import { OtherDatabase } from '../../store/migrate.ts';
import { PoolerRefused } from '../../store/pg/connections/pooler.ts';
import { EmbeddedPostgresError } from '../../store/pg/embedded/embedded-error.ts';
import { ReplicasTooOld, SchemaTooNew } from '../../store/upgrade/window.ts';

/** Errors whose messages already contain the reason and the remedy. */
const explained = [SchemaTooNew, ReplicasTooOld, OtherDatabase, PoolerRefused];

export interface Explanation {
  what: string;
  remedy: string;
}

const checkAddress = 'Check host and port in --database-url, and that PostgreSQL runs there.';
const noAnswer: Explanation = { what: 'the database does not answer', remedy: checkAddress };
const noHost: Explanation = {
  what: 'the host of the database is unknown',
  remedy: 'Check the host in --database-url, and the resolver of this host.',
};
const noRights: Explanation = {
  what: 'the database refuses this user',
  remedy: 'Check user and password in --database-url and --owner-database-url, and pg_hba.conf of the database.',
};
const untrusted: Explanation = {
  what: 'the certificate of the database is not trusted',
  remedy: 'Name its certificate authority in --database-url: append ?sslmode=verify-full&sslrootcert=FILE.',
};

/** Codes of the operating system, of TLS and of PostgreSQL. */
const explanations: Record<string, Explanation> = {
  EADDRINUSE: {
    what: 'the address to listen on is in use',
    remedy: 'Stop the program that listens on it, or choose another --port.',
  },
  EACCES: {
    what: 'permission denied for a file or port',
    remedy: 'Choose a --data-dir and a --port that this user may use.',
  },
  EROFS: {
    what: 'a file system is read-only',
    remedy: 'Choose a --data-dir that can be written.',
  },
  ECONNREFUSED: noAnswer,
  ECONNRESET: noAnswer,
  ETIMEDOUT: noAnswer,
  EHOSTUNREACH: noAnswer,
  ENETUNREACH: noAnswer,
  ENOTFOUND: noHost,
  EAI_AGAIN: noHost,
  ERR_INVALID_URL: {
    what: 'the URL of the database is invalid',
    remedy:
      'Write --database-url in the form postgres://user:password@host:5432/database, with special characters encoded as %XX.',
  },
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  '28P01': noRights,
  '28000': noRights,
  '3D000': {
    what: 'the database does not exist',
    remedy: 'Check the name in --database-url, or create it: create database slipway owner slipway.',
  },
  '42501': {
    what: 'the database refuses a statement',
    remedy: 'Let the role of --owner-database-url own the database, or grant the role the missing permission.',
  },
  '53300': {
    what: 'the database has no free connection',
    remedy: 'Raise max_connections of the database, or stop other clients.',
  },
  '57P03': { what: 'the database is starting or stopping', remedy: 'Start again when it accepts connections.' },
};

const sslRefused: Explanation = {
  what: 'the database does not use TLS',
  remedy: 'Remove sslmode from --database-url, or turn TLS on in the database.',
};

/** The beginnings of messages of the PostgreSQL client that come without a code. */
const messageExplanations: [string, Explanation][] = [
  ['SASL: ', noRights],
  ['The server does not support SSL', sslRefused],
  ['timeout expired', noAnswer],
];

const explainMessage = (message: string): Explanation | undefined =>
  messageExplanations.find(([text]) => message.startsWith(text))?.[1];

/** The error and its causes, outermost first. */
function chainOf(error: unknown): Error[] {
  if (!(error instanceof Error)) return [];
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause;
  return [error, ...chainOf(inner)];
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '');

/** Undefined for an unexpected error. */
export function explanationOf(error: unknown): (Explanation & { why: string | undefined }) | undefined {
  const chain = chainOf(error);
  for (const each of chain) {
    const explanation = explanations[codeOf(each)] ?? explainMessage(each.message);
    // The outer error of several failed addresses has no message.
    if (explanation) return { ...explanation, why: [each, ...chain].find(({ message }) => message)?.message };
  }
  return undefined;
}

/** Returns the text to show. Only an unexpected error is shown with its stack trace. */
export function startFailureMessage(error: unknown): string {
  if (error instanceof SettingsError) return `${error.message}\n\n${serverUsage()}`;
  if (error instanceof EmbeddedPostgresError) return `${error.message}\n  ${error.remedy}`;
  if (!(error instanceof Error)) return `could not start: ${error}`;
  if (explained.some((kind) => error instanceof kind)) return error.message;
  const explanation = explanationOf(error);
  if (explanation) return `${explanation.what}: ${explanation.why}\n  ${explanation.remedy}`;
  return `could not start: ${error.stack ?? error.message}`;
}
