/**
 * The account that PostgreSQL runs as: an unprivileged one if Slipway runs as root, which
 * PostgreSQL refuses; otherwise Slipway's own.
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

/** Never `nobody`: its processes can read and signal each other. */
const dedicated = ['slipway', 'postgres'];
const ownName = 'slipway';

export const runsAsRoot = () => process.getuid?.() === 0;

function listAccounts(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

/** shadow's useradd, then busybox's adduser: a system account without home, shell or password. */
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
  /** Creates the account `slipway` if the host has a program for that. */
  create(): void;
}

const thisHost: AccountsOfHost = { list: listAccounts, create: createAccount };

/** initdb requires an account that the host knows; a bare uid is not enough. */
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
    say(`PostgreSQL does not run as root; created the system account ${created.name} for it.`);
    return created;
  }
  throw new EmbeddedPostgresError(
    'no_unprivileged_account',
    `PostgreSQL does not run as root, and this host has none of the accounts ${dedicated.join(', ')}, and none could be created.`,
    'Start Slipway as a plain user, or create the account: useradd --system slipway',
  );
}

/** Many unprivileged processes run as nobody, and all of them can change what it owns. */
export const isNobody = ({ name, uid }: Account): boolean => name === 'nobody' || uid === 65_534;

/** PostgreSQL runs a cluster only as the account that owns it. */
export function accountOf(uid: number, gid: number): Account {
  return { name: listAccounts().find((account) => account.uid === uid)?.name ?? `uid ${uid}`, uid, gid };
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
