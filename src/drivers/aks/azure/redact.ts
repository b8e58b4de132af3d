/** Takes out of Azure's words what must not be told: the account's secrets, the tokens that were had for it, and signed addresses. */
import { builtInRedactor, redactionMark } from '../../../base/redaction/redact.ts';

export interface Strike {
  (text: string): string;
  /** From now on this is a secret too. */
  learn(secret: string | undefined): void;
}

/** In an address, whatever follows the question mark: operations are followed at addresses that hold their own key. */
const query = /(\b[a-z][a-z0-9+.-]{1,15}:\/\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/gi;
const path = /((?:^|[\s"'(])\/[^\s?"'<>]{1,2048}\?)[^\s"'<>]+/g;

/** Shorter ones would strike out words. */
const least_length = 8;
/** Tokens are renewed for ever; the last ones are those that can still be said. */
const most_known = 32;

export function createStrike(known: readonly (string | undefined)[]): Strike {
  const secrets: string[] = [];
  const learn = (secret: string | undefined) => {
    if (!secret || secret.length < least_length || secrets.includes(secret)) return;
    secrets.push(secret);
    // The account's own are the first, and stay.
    if (secrets.length > most_known) secrets.splice(known.length, 1);
  };
  for (const secret of known) learn(secret);
  const strike = (text: string) => {
    const without = secrets.reduce(
      (left, secret) => left.replaceAll(secret, redactionMark).replaceAll(encodeURIComponent(secret), redactionMark),
      text,
    );
    return builtInRedactor.text(without.replaceAll(query, `$1${redactionMark}`).replaceAll(path, `$1${redactionMark}`));
  };
  return Object.assign(strike, { learn });
}
