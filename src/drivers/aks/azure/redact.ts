/** Redacts secrets from Azure's messages: the account's, its tokens, and signed URLs. */
import { builtInRedactor, redactionMark } from '../../../base/redaction/redact.ts';

export interface Redact {
  (text: string): string;
  /** Adds a secret to redact from now on. */
  learn(secret: string | undefined): void;
}

/** The query part of a URL: operations are followed at URLs that contain their own key. */
const query = /(\b[a-z][a-z0-9+.-]{1,15}:\/\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/gi;
const path = /((?:^|[\s"'(])\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/g;

/** Shorter ones would redact ordinary words. */
const min_length = 8;
/** Tokens are renewed forever; only the latest can still appear. */
const max_known = 32;

export function createRedact(known: readonly (string | undefined)[]): Redact {
  const secrets: string[] = [];
  const learn = (secret: string | undefined) => {
    if (!secret || secret.length < min_length || secrets.includes(secret)) return;
    secrets.push(secret);
    // The account's own secrets come first and stay.
    if (secrets.length > max_known) secrets.splice(known.length, 1);
  };
  for (const secret of known) learn(secret);
  const redact = (text: string) => {
    const without = secrets.reduce(
      (left, secret) => left.replaceAll(secret, redactionMark).replaceAll(encodeURIComponent(secret), redactionMark),
      text,
    );
    return builtInRedactor.text(without.replaceAll(query, `$1${redactionMark}`).replaceAll(path, `$1${redactionMark}`));
  };
  return Object.assign(redact, { learn });
}
