/** Secrets come from files, standard input or the environment: arguments can be read by every user of the host. */
import { readFileSync } from 'node:fs';

const standardInput = 0;

/** A file that holds one secret and nothing else; `-` is standard input. Throws what is wrong with it. */
export function readSecretFile(path: string): string {
  const secret = readFileSync(path === '-' ? standardInput : path, 'utf8').trim();
  if (secret === '' || /\s/.test(secret)) throw new Error('it must contain the token alone, on one line');
  return secret;
}

export const argumentWarning = (flag: string, variable: string): string =>
  `--${flag} shows the token to every user of this host. Use --${flag}-file (- for standard input) or ${variable}.`;
