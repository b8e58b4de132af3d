/**
 * As whom PostgreSQL runs. It refuses to run as root, so root lends it an unprivileged account; everybody else runs it as
 * themselves.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.ts';

export interface Account {
  name: string;
  uid: number;
  gid: number;
}

/** Dedicated to databases. Never `nobody`, whose processes may read and signal each other's. */
const dedicated = ['slipway', 'postgres'];
const ownName = 'slipway';

export const runsAsRoot = () => process.getuid?.() === 0;

function accountsOfThisHost(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

/** shadow's useradd, then busybox's adduser. A system account without a home, a shell or a password. */
const accountPrograms: [program: string, args: string[]][] = [
  [
    'useradd',
    ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent', '--shell', '/bin/false', ownName],
  ],
  ['adduser', ['-S', '-D', '-H', '-h', '/nonexistent', '-s', '/bin/false', ownName]],
];

function createAccount(): void {
  for (const [program, args] of accountPrograms) {
    const { status } = spawnSync(program, args, { stdio: 'ignore', timeout: 10_000 });
    if (status === 0) return;
  }
}

export interface AccountsOfHost {
  list(): Account[];
  /** Makes the account `slipway` where the host has a program for that. */
  create(): void;
}

const thisHost: AccountsOfHost = { list: accountsOfThisHost, create: createAccount };

/** initdb wants an account that the host knows, so a bare uid does not do. */
export function unprivilegedAccount(say: (line: string) => void = () => {}, host: AccountsOfHost = thisHost): Account {
  const find = () => {
    const accounts = host.list();
    return dedicated.map((name) => accounts.find((account) => account.name === name)).find((account) => account?.uid);
  };
  const found = find();
  if (found) return found;
  host.create();
  const created = find();
  if (created) {
    say(`PostgreSQL does not run as root; the system account ${created.name} was made for it.`);
    return created;
  }
  throw new EmbeddedPostgresError(
    'no_unprivileged_account',
    `PostgreSQL does not run as root, and this host has none of the accounts ${dedicated.join(', ')}, nor could one be made.`,
    'Start Slipway as a plain user, or create the account: useradd --system slipway',
  );
}

/** Also what a process without rights of its own runs as; what it owns is open to all of them. */
export const isNobody = ({ name, uid }: Account): boolean => name === 'nobody' || uid === 65_534;

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
