/** Tests what opens a restoration, and that at most one is open. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestDatabase, testDatabase, withClient } from '../../../test/support/database.ts';
import { readEras } from '../../../test/support/restored-store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import { markLoadedBackup } from '../evidence/eras.ts';
import { migrate } from '../migrate.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { storeReplica } from '../testing/placed-nodes.ts';
import { replaceDifferences } from './restoration-differences.ts';
import {
  beginRestorationOfBackup,
  closeRestoration,
  lockOpenRestoration,
  markInspected,
  openRestoration,
  type RestorationRow,
  readNewestRestoration,
  readOpenRestoration,
} from './restorations.ts';

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

let database: TestDatabase;
let db: Database;
beforeEach(async () => {
  database = await testDatabase();
  db = openDatabase({ url: database.url });
});
afterEach(async () => {
  await db.close();
  await database.drop();
});

const loadBackup = () =>
  withClient(database.url, async (client) => {
    await client.query('begin');
    await beginRestorationOfBackup(client);
    await client.query('commit');
  });

const listRestorations = () => db.query<RestorationRow>('select * from restorations order by began_at');

test('a start on a database that was not restored opens none', async () => {
  await migrate(database.url);
  expect(await listRestorations()).toEqual([]);
});

test('a loaded backup begins an era, and a restoration with the time up to which heartbeats were stored', async () => {
  await storeReplica(db, 'rep_1', at(0));
  await storeReplica(db, 'rep_2', at(30));
  await loadBackup();
  expect(await readEras(database.url)).toMatchObject([{ era: '0' }, { era: '1', sign: 'backup_loaded' }]);
  const restoration = await readOpenRestoration(db);
  expect(restoration).toMatchObject({ sign: 'backup_loaded', remembers_until: at(30), inspected_at: null });
  // The next start finds the era begun, and opens no other.
  await migrate(database.url);
  expect(await listRestorations()).toEqual([restoration]);
});

test('a restoration has no such time if no server ever stored heartbeats', async () => {
  await loadBackup();
  expect(await readOpenRestoration(db)).toMatchObject({ remembers_until: null });
});

test('a loaded backup of an earlier schema gets its era and restoration from the start that migrates it', async () => {
  await db.query('drop table restoration_differences, restorations');
  await db.query(`delete from schema_migrations where name = '0061-restorations.sql'`);
  await loadBackup();
  expect(await readEras(database.url)).toHaveLength(1);
  expect((await migrate(database.url)).restored).toMatchObject({ sign: 'backup_loaded' });
  expect(await readOpenRestoration(db)).toMatchObject({ sign: 'backup_loaded' });
  expect((await migrate(database.url)).restored).toBeUndefined();
  expect(await listRestorations()).toHaveLength(1);
});

test('the mark of a loaded backup opens a restoration at the next start', async () => {
  await withClient(database.url, markLoadedBackup);
  await migrate(database.url);
  expect(await readOpenRestoration(db)).toMatchObject({ sign: 'backup_loaded' });
});

test('a second restore ends the open restoration, and drops its differences', async () => {
  await loadBackup();
  const first = await readOpenRestoration(db);
  const difference = {
    kind: 'gone',
    subject: 'n',
    driver: null,
    host: null,
    node_id: 'n',
    node_instance_id: null,
  } as const;
  await db.transaction((tx) =>
    replaceDifferences(
      tx,
      first?.restoration_id ?? '',
      { source: 'a', differences: [{ ...difference, seen: 'x' }] },
      at(1),
    ),
  );
  await loadBackup();
  const [ended, open] = await listRestorations();
  expect(ended).toMatchObject({
    restoration_id: first?.restoration_id,
    ended_at: expect.any(Date),
    ended_by: null,
    end_reason: 'the database was restored again',
  });
  expect(open).toMatchObject({ ended_at: null });
  expect(await readOpenRestoration(db)).toEqual(open);
  expect(await db.query('select from restoration_differences')).toEqual([]);
});

test('at most one restoration is open', async () => {
  await withClient(database.url, (client) => openRestoration(client, 'other_cluster'));
  const second = db.query(`insert into restorations (sign, began_at) values ('backup_loaded', now())`);
  await expect(second).rejects.toMatchObject({ code: '23505' });
});

test('a restoration is inspected once, and then ended by a person with a reason', async () => {
  await loadBackup();
  const { restoration_id = '' } = (await readOpenRestoration(db)) ?? {};
  await markInspected(db, restoration_id, at(10));
  await markInspected(db, restoration_id, at(20));
  expect(await readOpenRestoration(db)).toMatchObject({ inspected_at: at(10) });
  await db.transaction(async (tx) => {
    expect(await lockOpenRestoration(tx)).toMatchObject({ restoration_id });
    await closeRestoration(tx, { restoration_id, actor, reason: 'compared' }, at(30));
    expect(await lockOpenRestoration(tx)).toBeUndefined();
  });
  expect(await readOpenRestoration(db)).toBeUndefined();
  expect(await readNewestRestoration(db)).toMatchObject({
    ended_at: at(30),
    ended_by: { name: 'op' },
    end_reason: 'compared',
  });
});
