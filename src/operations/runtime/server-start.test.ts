/** Tests where the server's admin token comes from, and which tokens a new admin token revokes. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { now, systemClock } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { type Database, openDatabase } from '../../store/pg/database.ts';
import { createToken, findTokenBySecret, revokeToken } from '../../store/rows/tokens.ts';
import { type AdminTokenState, adminTokenPath, ensureAdminToken } from './server-start.ts';

let db: Database;
let data_dir: string;
const cleanups: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  const database = await testDatabase();
  db = openDatabase({ url: database.url });
  data_dir = await mkdtemp(join(tmpdir(), 'slipway-first-start-'));
  cleanups.push(
    database.drop,
    () => db.close(),
    () => rm(data_dir, { recursive: true }),
  );
});
afterEach(async () => {
  for (const end of cleanups.splice(0).reverse()) await end();
});

const warnings: string[] = [];
interface Start {
  /** The value of SLIPWAY_ADMIN_TOKEN. */
  configured?: string;
  data_dir?: string;
  /** Use the embedded database, which no other server shares. */
  embedded?: boolean;
}

/** Ensures the admin token as a starting server does, and returns where the token is. */
function ensure({ configured, embedded = false, ...more }: Start = {}): Promise<AdminTokenState> {
  const settings = { admin_token: configured ?? null, database_url: embedded ? null : 'postgres://shared' };
  const log = { warn: (text: string) => void warnings.push(text) } as unknown as Log;
  return ensureAdminToken(db, systemClock, { data_dir: more.data_dir ?? data_dir, settings, log });
}

/** Starts, and returns the token in the file. */
async function start(options: Start = {}): Promise<string> {
  const directory = options.data_dir ?? data_dir;
  await ensure(options);
  return (await readFile(adminTokenPath(directory), 'utf8')).trim();
}
const isValid = async (secret: string) => (await findTokenBySecret(db, secret))?.revoked_at === null;

it('creates a token in a file that only its owner can read, and keeps the token over restarts', async () => {
  const first = await start();
  expect(await start()).toBe(first);
  expect(await isValid(first)).toBe(true);
  expect((await stat(adminTokenPath(data_dir))).mode & 0o777).toBe(0o600);
});

it('revokes the former token when its file was deleted', async () => {
  const first = await start();
  await rm(adminTokenPath(data_dir));
  const second = await start();
  expect([await isValid(first), await isValid(second)]).toEqual([false, true]);
});

it('a new SLIPWAY_ADMIN_TOKEN revokes the token that it replaces, from the file or the environment', async () => {
  const [one, two] = [newSecret('swt'), newSecret('swt')];
  const fromFile = await start();
  await start({ configured: one });
  expect([await isValid(fromFile), await isValid(one)]).toEqual([false, true]);
  await start({ configured: two });
  expect([await isValid(one), await isValid(two)]).toEqual([false, true]);
  expect(await db.query(`select from evidence where kind = 'token.revoked'`)).toHaveLength(2);
});

it('warns and keeps a replaced token revoked, if a replica starts with it', async () => {
  const [one, two] = [newSecret('swt'), newSecret('swt')];
  await start({ configured: one });
  await start({ configured: two });
  warnings.length = 0;
  await start({ configured: one });
  expect([await isValid(one), await isValid(two)]).toEqual([false, true]);
  expect(warnings.join()).toContain('SLIPWAY_ADMIN_TOKEN');
});

it('a new data directory revokes no token on a shared database, but all on the embedded one', async () => {
  const first = await start();
  const other = await mkdtemp(join(tmpdir(), 'slipway-first-start-'));
  cleanups.push(() => rm(other, { recursive: true }));
  const second = await start({ data_dir: other });
  expect([await isValid(first), await isValid(second)]).toEqual([true, true]);
  await Promise.all([rm(adminTokenPath(data_dir)), rm(join(data_dir, 'admin.token.id'))]);
  const third = await start({ embedded: true });
  expect([await isValid(first), await isValid(second), await isValid(third)]).toEqual([false, false, true]);
});

it('refuses a weak token in the file and names the remedy', async () => {
  await writeFile(adminTokenPath(data_dir), 'secret-secret-secret-secret-\n');
  await expect(start()).rejects.toThrow(/different characters.*Delete the file/);
});

it.for([
  ['operator', null],
  ['admin', 'acme'],
] as const)('refuses a token of role %s and tenant %s, and names where it comes from', async ([role, tenant]) => {
  const secret = newSecret('swt');
  const row = { name: 'ci', role, tenant, pool: null, expires_at: null };
  await createToken(db, { ...row, token_id: newTokenId(systemClock), created_at: now(systemClock) }, secret);
  await expect(start({ configured: secret })).rejects.toThrow(/^SLIPWAY_ADMIN_TOKEN is the token ci, not an admin/);
  await writeFile(adminTokenPath(data_dir), `${secret}\n`);
  await expect(start()).rejects.toThrow(`The token in ${adminTokenPath(data_dir)} is ci, not an admin`);
});

it('reports a token that was revoked or has expired as not accepted', async () => {
  const first = await start();
  expect(await ensure()).toBe('file');
  const token_id = (await findTokenBySecret(db, first))?.token_id ?? '';
  await db.query('update tokens set expires_at = created_at where token_id = $1', [token_id]);
  expect(await ensure()).toBe('revoked');
  await db.query('update tokens set expires_at = null where token_id = $1', [token_id]);
  await revokeToken(db, token_id, now(systemClock));
  warnings.length = 0;
  expect(await ensure()).toBe('revoked');
  expect(warnings.join()).toContain('slipway admin reset-token');
});

it('a configured token that is not accepted leaves the token in the file', async () => {
  const [one, two] = [newSecret('swt'), newSecret('swt')];
  await start({ configured: one });
  const current = await start({ configured: two });
  expect(await ensure({ configured: one })).toBe('environment_revoked');
  expect(await readFile(adminTokenPath(data_dir), 'utf8')).toBe(`${current}\n`);
});

it('replicas that start at once share a new token', async () => {
  const configured = newSecret('swt');
  await Promise.all([start({ configured }), start({ configured }), start({ configured })]);
  expect(await db.query('select from tokens where revoked_at is null')).toHaveLength(1);
});
