/**
 * As whom PostgreSQL runs. It refuses to run as root, so root lends it an unprivileged account; everybody else runs it as
 * themselves.
 */
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.ts';

export interface Account {
  name: string;
  uid: number;
  gid: number;
}

const lent = ['postgres', 'nobody'];

export const runsAsRoot = () => process.getuid?.() === 0;

function accountsOfThisHost(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

export function unprivilegedAccount(): Account {
  const accounts = accountsOfThisHost();
  const found = lent.map((name) => accounts.find((account) => account.name === name)).find((account) => account?.uid);
  if (found) return found;
  throw new EmbeddedPostgresError(
    'no_unprivileged_account',
    `PostgreSQL does not run as root, and this host has none of the accounts ${lent.join(', ')}.`,
    'Start Slipway as a plain user, or create the account `postgres`.',
  );
}

/** The account that owns an existing cluster is the only one that can run it. */
export function accountOf(uid: number, gid: number): Account {
  return { name: accountsOfThisHost().find((account) => account.uid === uid)?.name ?? `uid ${uid}`, uid, gid };
}

const readAndEnter = 0o5;
const enter = 0o1;

function may(account: Account, path: string, wanted: number): boolean {
  const { uid, gid, mode } = statSync(path);
  const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
  return ((mode >> shift) & wanted) === wanted;
}

const ancestors = (path: string): string[] =>
  dirname(path) === path ? [] : [dirname(path), ...ancestors(dirname(path))];

/** The first directory on the way to `path` that the account may not enter. */
export const barrierBefore = (account: Account, path: string): string | undefined =>
  ancestors(path).find((directory) => !may(account, directory, enter));

export const mayUse = (account: Account, path: string): boolean =>
  barrierBefore(account, path) === undefined && may(account, path, readAndEnter);
