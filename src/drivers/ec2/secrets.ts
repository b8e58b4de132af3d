/** Redacts secrets from the provider's messages, from client errors and from console output. */
import { createRedactor, isSecretName, redactionMark } from '../../base/redaction/redact.ts';
import type { DriverTarget, EnsureTarget } from '../driver.ts';
import { literalEnv } from '../workload-spec.ts';
import { isEc2Spec } from './spec.ts';

export interface AccountSecrets {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string | undefined;
}

/**
 * Match request signatures and credentials, and the encoded authorization message, which contains
 * the account and the whole request.
 */
const requestPatterns = [
  { find: /((?:X-Amz-)?(?:Signature|Credential|Security-Token)["']?\s*[=:]\s*["']?)[^\s"'&,;<>]+/gi, keep: '$1' },
  { find: /(encoded authorization failure message:\s*)\S+/gi, keep: '$1' },
  { find: /\bASIA[0-9A-Z]{16}\b/g, keep: '' },
];

const min_secret_length = 8;

/** Returns environment values that come from stored secrets or whose names look secret. */
function workloadSecrets({ spec, ...target }: DriverTarget | EnsureTarget): string[] {
  const secret_env = 'bootstrap' in target ? (target.bootstrap.secret_env ?? []) : [];
  const env = isEc2Spec(spec) ? literalEnv(spec.env) : {};
  return Object.entries(env).flatMap(([name, value]) =>
    (isSecretName(name) || secret_env.includes(name)) && value.length >= min_secret_length ? [value] : [],
  );
}

const bootstrapSecrets = (target: DriverTarget | EnsureTarget): string[] =>
  'bootstrap' in target ? [target.bootstrap.enrollment_token] : [];

export type Redact = (text: string) => string;

export function createRedactFor(account: AccountSecrets | null, target: DriverTarget | null): Redact {
  const secrets = [
    ...(account ? [account.secretAccessKey, account.sessionToken ?? '', account.accessKeyId] : []),
    ...(target ? [...bootstrapSecrets(target), ...workloadSecrets(target)] : []),
  ].filter((literal) => literal !== '');
  const redactor = createRedactor([], secrets);
  return (text) =>
    redactor.text(
      requestPatterns.reduce((redacted, { find, keep }) => redacted.replaceAll(find, `${keep}${redactionMark}`), text),
    );
}
