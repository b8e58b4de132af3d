/** Redacts the account's secrets, its tokens and signed URLs from Azure's messages. */
import { builtInRedactor, redactionMark } from '../../../base/redaction/redact.ts';

export interface Redact {
  (text: string): string;
  /** Adds a secret to redact from now on. */
  learn(secret: string | undefined): void;
}

/**
 * Matches the query of a URL. Azure signs the URLs of its asynchronous operations, and the
 * signature is in the query.
 */
const urlQuery = /(\b[a-z][a-z0-9+.-]{1,15}:\/\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/gi;
/** Matches the query of a URL without a host. */
const pathQuery = /((?:^|[\s"'(])\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/g;

/** A shorter secret could be part of ordinary words. */
const min_length = 8;
/** Tokens are renewed again and again, and only recent ones can still appear in a message. */
const max_secrets = 32;

export function createRedact(accountSecrets: readonly (string | undefined)[]): Redact {
  const secrets: string[] = [];
  let keptSecrets = 0;
  const learn = (secret: string | undefined) => {
    if (!secret || secret.length < min_length || secrets.includes(secret)) return;
    secrets.push(secret);
    // Removes the oldest token. The account's own secrets come first and are kept.
    if (secrets.length > max_secrets) secrets.splice(keptSecrets, 1);
  };
  for (const secret of accountSecrets) learn(secret);
  keptSecrets = secrets.length;
  const redact = (text: string) => {
    const withoutSecrets = secrets.reduce(
      (redacted, secret) =>
        redacted.replaceAll(secret, redactionMark).replaceAll(encodeURIComponent(secret), redactionMark),
      text,
    );
    return builtInRedactor.text(
      withoutSecrets.replaceAll(urlQuery, `$1${redactionMark}`).replaceAll(pathQuery, `$1${redactionMark}`),
    );
  };
  return Object.assign(redact, { learn });
}
