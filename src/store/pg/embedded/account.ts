/**
 * Chooses the account that PostgreSQL runs as: Slipway's own, or an unprivileged one if Slipway
 * runs as root, because PostgreSQL refuses to run as root.
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

/** `nobody` is not among them, because processes of one account can read and signal each other. */
const dedicatedNames = ['slipway', 'postgres'];
const ownName = 'slipway';

export const runsAsRoot = () => process.getuid?.() === 0;

function listAccounts(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}

/**
 * Commands that create a system account without home, shell or password: useradd of shadow, and
 * adduser of busybox.
 */
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
  /** Creates the account `slipway` if the host has useradd or adduser. */
  create(): void;
}

const thisHost: AccountsOfHost = { list: listAccounts, create: createAccount };

/** Returns an existing account, or creates one, because initdb does not accept a bare uid. */
export function ensureUnprivilegedAccount(
  log: (line: string) => void = () => {},
  host: AccountsOfHost = thisHost,
): Account {
  const find = () => {
    const accounts = host.list();
    return dedicatedNames
      .map((name) => accounts.find((account) => account.name === name))
      .find((account) => account?.uid);
  };
  const existing = find();
  if (existing) return existing;
  host.create();
  const created = find();
  if (created) {
    log(`PostgreSQL does not run as root; created the system account ${created.name} for it.`);
    return created;
  }
  throw new EmbeddedPostgresError(
    'no_unprivileged_account',
    `PostgreSQL does not run as root, and this host has none of the accounts ${dedicatedNames.join(', ')}, and none could be created.`,
    'Start Slipway as a plain user, or create the account: useradd --system slipway',
  );
}

/** Many unprivileged processes run as nobody, and all of them can change files of nobody. */
export const isNobody = ({ name, uid }: Account): boolean => name === 'nobody' || uid === 65_534;

/** PostgreSQL runs a cluster only as the account that owns it. */
export function readAccount(uid: number, gid: number): Account {
  return { name: listAccounts().find((account) => account.uid === uid)?.name ?? `uid ${uid}`, uid, gid };
}

const readAndEnter = 0o5;
const enter = 0o1;

function hasRights(account: Account, path: string, wanted: number): boolean {
  const { uid, gid, mode } = statSync(path);
  const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
  return ((mode >> shift) & wanted) === wanted;
}

const listAncestors = (path: string): string[] =>
  dirname(path) === path ? [] : [dirname(path), ...listAncestors(dirname(path))];

/** Returns the innermost directory above `path` that the account may not enter. */
export const findBlockedAncestor = (account: Account, path: string): string | undefined =>
  listAncestors(path).find((directory) => !hasRights(account, directory, enter));

export const mayUse = (account: Account, path: string): boolean =>
  findBlockedAncestor(account, path) === undefined && hasRights(account, path, readAndEnter);
