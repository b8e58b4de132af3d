/** A backup has all rows of one moment, and a backup that cannot be taken leaves no file. */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { emptyDatabase, type TestDatabase, testDatabase, withClient } from '../../test/support/database.ts';
import { type SealedStore, sealedStore } from '../../test/support/sealed-store.ts';
import { silentListener } from '../../test/support/silent-listener.ts';
import { dbosSchema } from '../engine/dbos-schema.ts';
import { defaultWaitLimits } from '../store/backup/open-client.ts';
import { readDatabase } from '../store/backup/read-database.ts';
import { testFleet } from '../store/testing/fleet.ts';
import { describeFailure } from './failure.ts';
import { verifyBackup } from './read-backup.ts';
import { takeBackup } from './take-backup.ts';

let source: SealedStore;
let directory: string;
const cleanups: (() => Promise<void>)[] = [];

beforeAll(async () => {
  source = await sealedStore();
  const fleet = await testFleet(source.db);
  await fleet.node('ready');
  await source.facts(2);
  await source.dba.query(
    `insert into installation (installation_id, enrollment_secret, session_secret, created_at)
     values ('slipway-test', '', '', now())`,
  );
});

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-taken-'));
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await rm(directory, { recursive: true });
});

afterAll(() => source.close());

const keys = () => ({ path: source.ring.path, all: source.ring.all });
const place = (name: string) => join(directory, name);
const take = ({ url = source.dba.url, to = directory, keep = null as number | null } = {}) =>
  takeBackup({ url, to, keep, key_ring: source.ring, limits: { connect_ms: 5_000, lock_ms: 300 } });

const openTemporary = async (database: Promise<TestDatabase>): Promise<TestDatabase> => {
  const opened = await database;
  cleanups.push(opened.drop);
  return opened;
};

test('reports the content of a backup, and leaves no other file', async () => {
  const taken = await take();
  expect(await readdir(directory)).toEqual([taken.file.slice(directory.length + 1)]);
  expect((await stat(taken.file)).mode & 0o777).toBe(0o600);
  const verified = await verifyBackup(taken.file, keys());
  expect(verified.header).toMatchObject({
    installation_id: 'slipway-test',
    backup_id: taken.backup_id,
    engine_schema: dbosSchema.newest,
  });
  expect(verified.rows).toBe(taken.rows);
  expect(verified.tables['public.nodes']).toBe(1);
  expect((await readFile(taken.file)).includes('fact 1')).toBe(false);
});

describe('refuses, and leaves no file', () => {
  test('to back up a database without Slipway', async () => {
    const { url } = await openTemporary(emptyDatabase());
    await expect(take({ url })).rejects.toMatchObject({ code: 'database_missing' });
    expect(await readdir(directory)).toEqual([]);
  });

  test('to replace a file', async () => {
    await writeFile(place('mine'), 'mine');
    await expect(take({ to: place('mine') })).rejects.toMatchObject({ code: 'file_exists' });
    expect(await readFile(place('mine'), 'utf8')).toBe('mine');
    expect(await readdir(directory)).toEqual(['mine']);
  });
});

describe('times out', () => {
  test('waiting for a database that accepts the connection and never answers', async () => {
    const silent = await silentListener({ host: '127.0.0.1', port: 0 });
    cleanups.push(silent.close);
    const url = `postgres://a@127.0.0.1:${silent.port}/a`;
    const limits = { ...defaultWaitLimits, connect_ms: 300 };
    const failure = await takeBackup({ url, to: directory, keep: null, key_ring: source.ring, limits }).catch(
      describeFailure,
    );
    expect(failure).toMatchObject({ code: 'failed', title: 'the database does not answer' });
    expect(await readdir(directory)).toEqual([]);
  });

  test('waiting for a table that another session has locked', async () => {
    await withClient(source.dba.url, async (client) => {
      await client.query('begin; lock table nodes in access exclusive mode');
      await expect(take()).rejects.toMatchObject({ name: 'BackupRefused', code: 'database_in_use' });
    });
    expect(await readdir(directory)).toEqual([]);
  });
});

test('a backup shows one moment, even if rows change while it is read', async () => {
  const changing = await openTemporary(testDatabase());
  const snapshot = await readDatabase(changing.url, dbosSchema);
  await withClient(changing.url, async (client) => {
    await client.query(`insert into counts (of, status, change) values ('nodes', 'ready', 1)`);
  });
  const counts: Record<string, number>[] = [];
  for await (const record of snapshot.records()) if (record.kind === 'end') counts.push(record.tables);
  await snapshot.close();
  expect(counts[0]?.['public.counts']).toBe(0);
});

test('deletes all but the newest backups of the installation, and no other file', async () => {
  const names = ['2001-01-01T00-00-00-000Z', '2002-01-01T00-00-00-000Z'].map(
    (time) => `slipway-test-${time}.slipway-backup`,
  );
  const others = ['slipway-other-2001-01-01T00-00-00-000Z.slipway-backup', 'slipway-test-2001.txt'];
  for (const name of [...names, ...others]) await writeFile(place(name), name);
  const backup = await take({ keep: 2 });
  expect(backup.deleted).toEqual([place(names[0] ?? '')]);
  const [, second = ''] = names;
  expect((await readdir(directory)).sort()).toEqual(
    [second, backup.file.slice(directory.length + 1), ...others].sort(),
  );
});

test('keeps the backup just taken even if the directory has one of a later time', async () => {
  await writeFile(place('slipway-test-2999-01-01T00-00-00-000Z.slipway-backup'), '');
  const { file } = await take({ keep: 1 });
  expect((await readdir(directory)).map(place)).toEqual([file]);
});
