/** What the provider, its client and a machine's console say, without what must not be told. */
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
 * Signatures and the scopes they were made for; and what only the account's owner may decode, which names who we are
 * and everything that was asked.
 */
const ofRequests = [
  { find: /((?:X-Amz-)?(?:Signature|Credential|Security-Token)["']?\s*[=:]\s*["']?)[^\s"'&,;<>]+/gi, leaves: '$1' },
  { find: /(encoded authorization failure message:\s*)\S+/gi, leaves: '$1' },
  { find: /\bASIA[0-9A-Z]{16}\b/g, leaves: '' },
];

const shortest_secret = 8;

/** What a machine was given for its workload from stored secrets, or under a name that says it is secret. */
function ofWorkload({ spec, ...target }: DriverTarget | EnsureTarget): string[] {
  const secret_env = 'bootstrap' in target ? (target.bootstrap.secret_env ?? []) : [];
  const env = isEc2Spec(spec) ? literalEnv(spec.env) : {};
  return Object.entries(env).flatMap(([name, value]) =>
    (isSecretName(name) || secret_env.includes(name)) && value.length >= shortest_secret ? [value] : [],
  );
}

const ofMachine = (target: DriverTarget | EnsureTarget): string[] =>
  'bootstrap' in target ? [target.bootstrap.enrollment_token] : [];

export type Strike = (text: string) => string;

export function strikeFor(account: AccountSecrets | null, target: DriverTarget | null): Strike {
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
