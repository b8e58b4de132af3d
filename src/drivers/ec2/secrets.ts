/** Redacts secrets from messages of the provider, its client and a machine's console. */
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
 * Signatures and their scopes, and the encoded authorization message, which names the account and
 * the whole request.
 */
const ofRequests = [
  { find: /((?:X-Amz-)?(?:Signature|Credential|Security-Token)["']?\s*[=:]\s*["']?)[^\s"'&,;<>]+/gi, leaves: '$1' },
  { find: /(encoded authorization failure message:\s*)\S+/gi, leaves: '$1' },
  { find: /\bASIA[0-9A-Z]{16}\b/g, leaves: '' },
];

const min_secret_length = 8;

/** Values of the workload's environment that come from stored secrets or have a secret name. */
function ofWorkload({ spec, ...target }: DriverTarget | EnsureTarget): string[] {
  const secret_env = 'bootstrap' in target ? (target.bootstrap.secret_env ?? []) : [];
  const env = isEc2Spec(spec) ? literalEnv(spec.env) : {};
  return Object.entries(env).flatMap(([name, value]) =>
    (isSecretName(name) || secret_env.includes(name)) && value.length >= min_secret_length ? [value] : [],
  );
}

const ofMachine = (target: DriverTarget | EnsureTarget): string[] =>
  'bootstrap' in target ? [target.bootstrap.enrollment_token] : [];

export type Redact = (text: string) => string;

export function redactFor(account: AccountSecrets | null, target: DriverTarget | null): Redact {
  const known = [
    ...(account ? [account.secretAccessKey, account.sessionToken ?? '', account.accessKeyId] : []),
    ...(target ? [...ofMachine(target), ...ofWorkload(target)] : []),
  ].filter((literal) => literal !== '');
  const redactor = createRedactor([], known);
  return (text) =>
    redactor.text(
      ofRequests.reduce((left, { find, leaves }) => left.replaceAll(find, `${leaves}${redactionMark}`), text),
    );
}
