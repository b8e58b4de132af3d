/** Tests which files and tokens a reset of the admin token changes, and which it must not. */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { now, systemClock } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { type Database, openDatabase } from '../../store/pg/database.ts';
import { createToken, findTokenBySecret, lockAdminToken, revokeToken } from '../../store/rows/tokens.ts';
import { resetAdminToken } from './reset-admin-token.ts';
import { adminTokenIdPath, adminTokenPath, ensureAdminToken } from './server-start.ts';

let db: Database;
let data_dir: string;
let path: string;
const cleanups: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  const database = await testDatabase();
  db = openDatabase({ url: database.url });
  data_dir = await mkdtemp(join(tmpdir(), 'slipway-reset-'));
  path = adminTokenPath(data_dir);
  cleanups.push(
    database.drop,
    () => db.close(),
    () => rm(data_dir, { recursive: true }),
  );
});
afterEach(async () => {
  for (const end of cleanups.splice(0).reverse()) await end();
});

const readText = async (file: string) => (await readFile(file, 'utf8')).trim();
const findByFile = async () => await findTokenBySecret(db, await readText(path));
const isValid = async (secret: string) => (await findTokenBySecret(db, secret))?.revoked_at === null;

/** Starts as a server on an external database does, and returns the token in its file. */
async function start(admin_token: string | null = null): Promise<string> {
  const log = { info() {}, warn() {} } as unknown as Log;
  const settings = { admin_token, database_url: 'postgres://shared' };
  await ensureAdminToken(db, systemClock, { data_dir, settings, log });
  return readText(path);
}
const reset = (place: { data_dir?: string; is_embedded?: boolean } = {}) =>
  resetAdminToken(db, systemClock, { data_dir, is_embedded: false, ...place });

it('replaces a token whose id is known, although its file was deleted', async () => {
  const former = await start();
  await rm(path);
  const done = await reset();
  expect(done).toMatchObject({ obstacle: null, revoked: [expect.any(String)] });
  expect(await readText(path)).toBe(done.token);
  expect(await readText(adminTokenIdPath(data_dir))).toBe((await findByFile())?.token_id);
  expect(await isValid(former)).toBe(false);
});

it('changes no file of another installation', async () => {
  await writeFile(path, `${newSecret('swt')}\n`);
  await writeFile(adminTokenIdPath(data_dir), 'tok_of_another_database\n');
  const before = await readText(path);
  const done = await reset();
  expect(done).toMatchObject({ obstacle: 'other_database', revoked: [] });
  expect(await readText(path)).toBe(before);
  expect(await readText(adminTokenIdPath(data_dir))).toBe('tok_of_another_database');
  expect(await findTokenBySecret(db, done.token)).toMatchObject({ revoked_at: null, origin: null });
});

it('only returns the token if there is no data directory', async () => {
  const missing = join(data_dir, 'missing');
  expect(await reset({ data_dir: missing })).toMatchObject({ obstacle: 'no_directory', revoked: [] });
});

it('keeps the token of SLIPWAY_ADMIN_TOKEN and its file while it is accepted', async () => {
  const shared = await start(newSecret('swt'));
  for (const is_embedded of [false, true])
    expect(await reset({ is_embedded })).toMatchObject({ obstacle: 'environment', revoked: [] });
  expect(await isValid(shared)).toBe(true);
  expect(await readText(path)).toBe(shared);
});

it('keeps a token that was generated, and then set as SLIPWAY_ADMIN_TOKEN', async () => {
  const shared = await start(await start());
  expect(await reset()).toMatchObject({ obstacle: 'environment', revoked: [] });
  expect(await isValid(shared)).toBe(true);
});

it('replaces the file of a revoked token of SLIPWAY_ADMIN_TOKEN', async () => {
  await start(newSecret('swt'));
  await revokeToken(db, (await findByFile())?.token_id ?? '', now(systemClock));
  const done = await reset();
  expect(done).toMatchObject({ obstacle: null, revoked: [] });
  expect(await readText(path)).toBe(done.token);
});

it('leaves no draft with a valid token if the file cannot be replaced', async () => {
  await start();
  await rm(path);
  await mkdir(path);
  const done = await reset();
  expect(done).toMatchObject({ obstacle: 'write_failed', revoked: [expect.any(String)] });
  expect((await readdir(data_dir)).toSorted()).toEqual(['admin.token', 'admin.token.id']);
});

it('reports the token as stored if only its id cannot be stored', async () => {
  await start();
  await rm(adminTokenIdPath(data_dir));
  await mkdir(adminTokenIdPath(data_dir));
  const done = await reset();
  expect(done).toMatchObject({ obstacle: null });
  expect(await readText(path)).toBe(done.token);
});

it('reads no pipe, link or large file', async () => {
  const former = await start();
  const id = await readText(adminTokenIdPath(data_dir));
  await rm(path);
  execFileSync('mkfifo', [path]);
  const elsewhere = join(data_dir, 'elsewhere');
  await writeFile(elsewhere, `${id}\n`);
  await rm(adminTokenIdPath(data_dir));
  await symlink(elsewhere, adminTokenIdPath(data_dir));
  expect(await reset()).toMatchObject({ obstacle: 'other_database' });

  await rm(adminTokenIdPath(data_dir));
  await writeFile(adminTokenIdPath(data_dir), id + ' '.repeat(1_000_000));
  expect(await reset()).toMatchObject({ obstacle: 'other_database' });
  expect(await isValid(former)).toBe(true);
});

it('waits for another process that changes the admin token before it reads the files', async () => {
  await start();
  let resetting: ReturnType<typeof reset> | undefined;
  const other = await db.transaction(async (tx) => {
    await lockAdminToken(tx);
    resetting = reset();
    await until('the reset waits for the lock', async () => {
      const waiting = await db.query(
        `select
         from pg_locks
         where locktype = 'advisory'
           and not granted
           and database = (select oid from pg_database where datname = current_database())`,
      );
      return waiting.length > 0;
    });
    const row = { token_id: newTokenId(systemClock), name: 'admin', role: 'admin', tenant: null, pool: null } as const;
    await createToken(tx, { ...row, created_at: now(systemClock), expires_at: null, origin: 'file' }, newSecret('swt'));
    await rm(path);
    await writeFile(adminTokenIdPath(data_dir), `${row.token_id}\n`);
    return row.token_id;
  });
  expect((await resetting)?.revoked).toEqual([other]);
});
