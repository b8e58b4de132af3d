/** Databases that earlier versions wrote can be backed up, restored and moved as they are. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { emptyDatabase, type TestDatabase, withClient } from '../../test/support/database.ts';
import { memoryKeyRing } from '../../test/support/key-ring.ts';
import { readDigests, readEras } from '../../test/support/restored-store.ts';
import { migrate } from '../store/migrate.ts';
import { moveDatabase, restoreBackup } from './restore.ts';
import { takeBackup } from './take-backup.ts';

const fixtures = join(import.meta.dirname, '../../test/scenarios/upgrades/fixtures');
const names = (await readdir(fixtures)).filter((name) => name.endsWith('.sql'));
const key_ring = memoryKeyRing();

const readVersion = (url: string): Promise<number | undefined> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ newest: number }>('select max(version) as newest from schema_migrations');
    return rows[0]?.newest;
  });

describe.for(names)('the database of %s', (name) => {
  let source: TestDatabase;
  let target: TestDatabase;
  let directory: string;

  beforeAll(async () => {
    source = await emptyDatabase();
    const text = await readFile(join(fixtures, name), 'utf8');
    await withClient(source.url, (client) => client.query(text));
    directory = await mkdtemp(join(tmpdir(), 'slipway-early-'));
  });
  beforeEach(async () => {
    target = await emptyDatabase();
  });
  afterEach(() => target.drop());
  afterAll(async () => {
    await source.drop();
    await rm(directory, { recursive: true });
  });

  test('is restored with its schema, and the start that migrates it begins an era', async () => {
    const { file } = await takeBackup({ url: source.url, to: join(directory, 'taken'), keep: null, key_ring });
    const into = { url: target.url, data_dir: '' };
    await restoreBackup({ file, into, keys: { path: 'keys.json', all: key_ring.all }, log: () => {} });
    expect(await readDigests(target.url)).toEqual(await readDigests(source.url));
    expect(await readVersion(target.url)).toBe(await readVersion(source.url));

    // Source and target are in one cluster, so only the mark that the restore left shows it.
    expect((await migrate(target.url)).restored).toMatchObject({ era: '1', sign: 'backup_loaded' });
    expect((await migrate(target.url)).restored).toBeUndefined();
    expect(await readEras(target.url)).toMatchObject([{ era: '0' }, { era: '1', sign: 'backup_loaded' }]);
  });

  test('is moved with its schema', async () => {
    await moveDatabase(source.url, target.url);
    expect(await readDigests(target.url)).toEqual(await readDigests(source.url));
    expect(await readVersion(target.url)).toBe(await readVersion(source.url));
    await migrate(target.url);
  });
});
