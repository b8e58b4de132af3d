/**
 * Reads secrets from files or standard input. Arguments would be visible to every user of the host.
 */
import { readFileSync } from 'node:fs';

const standardInput = 0;

/** Reads a file that holds one secret; `-` is standard input. Throws if the file is unusable. */
export function readSecretFile(path: string): string {
  const secret = readFileSync(path === '-' ? standardInput : path, 'utf8').trim();
  if (secret === '' || /\s/.test(secret)) throw new Error('the file must contain only the token, on one line');
  return secret;
}

export const argumentWarning = (flag: string, variable: string): string =>
  `--${flag} shows the token to every user of this host. Use --${flag}-file (- for standard input) or ${variable}.`;
