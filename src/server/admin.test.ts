/** Tests `slipway admin reset-token` as people run it on the host of a server. */
import { spawnSync } from 'node:child_process';
import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { emptyDatabase, testDatabase } from '../../test/support/database.ts';
import { spawnMain } from '../../test/support/server.ts';
import { systemClock } from '../base/clock.ts';
import { newSecret } from '../base/credentials/random-secret.ts';
import { packageRoot } from '../base/files/package-root.ts';
import type { Log } from '../base/telemetry/log.ts';
import { adminTokenPath, ensureAdminToken } from '../operations/runtime/server-start.ts';
import { type Database, openDatabase } from '../store/pg/database.ts';
import { findTokenBySecret, revokeToken } from '../store/rows/tokens.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-admin-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const admin = (args: string[], env: Record<string, string> = {}) =>
  spawnSync(join(packageRoot, 'bin/slipway'), ['admin', ...args], {
    encoding: 'utf8',
    cwd: folder,
    env: { PATH: process.env.PATH, ...env },
  });

const printedToken = (output: string) => /\bswt_\S+/.exec(output)?.[0] ?? '';

async function withDatabase(work: (db: Database, url: string) => Promise<void>): Promise<void> {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url });
  try {
    await work(db, database.url);
  } finally {
    await db.close();
    await database.drop();
  }
}

/** Starts as a server on an external database does, and returns where its admin token is. */
const start = (db: Database, admin_token: string | null = null) =>
  ensureAdminToken(db, systemClock, {
    data_dir: folder,
    settings: { admin_token, database_url: 'postgres://shared' },
    log: { info() {}, warn() {} } as unknown as Log,
  });
const readFileToken = async () => (await readFile(adminTokenPath(folder), 'utf8')).trim();

test('replaces a dead token of an external database, in the file too, with evidence', () =>
  withDatabase(async (db, url) => {
    await start(db);
    const dead = await readFileToken();
    const deadId = (await findTokenBySecret(db, dead))?.token_id ?? '';
    await revokeToken(db, deadId, new Date(0));
    expect(await start(db)).toBe('revoked');

    const { stdout, stderr, status } = admin(['reset-token', '--database-url', url, '--data-dir', folder]);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    const token = printedToken(stdout);
    expect(await readFileToken()).toBe(token);
    expect((await stat(adminTokenPath(folder))).mode & 0o777).toBe(0o600);
    expect(await findTokenBySecret(db, token)).toMatchObject({ role: 'admin', tenant: null, revoked_at: null });
    expect(await start(db)).toBe('file');
    const facts = await db.query(`select data ->> 'token_id' as id from evidence where kind = 'token.created'`);
    expect(facts).toHaveLength(2);
  }));

test('revokes a live token that it replaces, and no other', () =>
  withDatabase(async (db, url) => {
    await start(db);
    const former = await readFileToken();
    const alone = admin(['reset-token'], { SLIPWAY_OWNER_DATABASE_URL: url, SLIPWAY_DATA_DIR: join(folder, 'other') });
    expect(alone.stdout).toContain('It is stored nowhere else: keep it now.');
    expect((await findTokenBySecret(db, former))?.revoked_at).toBeNull();
    const { stdout } = admin(['reset-token', '--database-url', url, '--data-dir', folder]);
    expect((await findTokenBySecret(db, former))?.revoked_at).not.toBeNull();
    for (const output of [alone.stdout, stdout])
      expect((await findTokenBySecret(db, printedToken(output)))?.revoked_at).toBeNull();
  }));

test('uses the database of the environment with --data-dir, and leaves the token of another one', () =>
  withDatabase(async (db, url) => {
    const foreign = 'swt_of-another-installation';
    await writeFile(adminTokenPath(folder), foreign);
    const env = { SLIPWAY_DATABASE_URL: url };
    const { stdout, stderr } = admin(['reset-token', '--data-dir', folder], env);
    expect(stderr).toBe('');
    expect(stdout).toContain('names no token of this database');
    expect(await findTokenBySecret(db, printedToken(stdout))).toMatchObject({ revoked_at: null });
    expect(await readFileToken()).toBe(foreign);
  }));

test('says that it did not revoke the token of SLIPWAY_ADMIN_TOKEN', () =>
  withDatabase(async (db, url) => {
    await start(db, newSecret('swt'));
    const { stdout } = admin(['reset-token', '--database-url', url, '--data-dir', folder]);
    expect(stdout).toContain('SLIPWAY_ADMIN_TOKEN');
    expect(stdout).toContain('It was not revoked');
  }));

test('replaces a planted link, and does not write where it leads', () =>
  withDatabase(async (db, url) => {
    await start(db);
    const victim = join(folder, 'victim');
    await writeFile(victim, 'unchanged');
    await rm(adminTokenPath(folder));
    await symlink(victim, adminTokenPath(folder));
    const { stdout, status } = admin(['reset-token', '--database-url', url, '--data-dir', folder]);
    expect(status).toBe(0);
    expect(await readFile(victim, 'utf8')).toBe('unchanged');
    expect(await readFileToken()).toBe(printedToken(stdout));
    expect((await lstat(adminTokenPath(folder))).isFile()).toBe(true);
  }));

test('exits with 2 and an explanation if no token can be created', async () => {
  const wrong = admin([]);
  expect(wrong).toMatchObject({ status: 2, stdout: '' });
  expect(wrong.stderr).toContain('Usage: slipway admin reset-token');
  const nothing = admin(['reset-token']);
  expect(nothing.status).toBe(2);
  expect(nothing.stderr).toContain('holds no database');
  const closed = admin(['reset-token', '--database-url', 'postgres://nobody@127.0.0.1:1/none']);
  expect(closed.status).toBe(2);
  expect(closed.stderr).toContain('the database does not answer');
  const empty = await emptyDatabase();
  const foreign = admin(['reset-token', '--database-url', empty.url]);
  await empty.drop();
  expect(foreign.status).toBe(2);
  expect(foreign.stderr).toContain('no tables of Slipway');
});

test('a running server on the embedded database accepts the new token at once', async () => {
  const server = await spawnMain(['--port', '0', '--data-dir', folder]);
  const call = async (token: string) =>
    (await fetch(`${server.url}/v1/tokens`, { headers: { authorization: `Bearer ${token}` } })).status;
  const former = await readFileToken();
  expect(await call(former)).toBe(200);
  const { stdout, stderr } = admin(['reset-token', '--data-dir', folder]);
  expect(stderr).toBe('');
  expect(await call(printedToken(stdout))).toBe(200);
  await expect.poll(() => call(former), { timeout: 30_000 }).toBe(401);
  await server.end('SIGTERM');
});
