/** What is planned once stays right, whatever becomes of the tables it was planned for. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts';
import { type Database, openDatabase, type Queryable } from './database.ts';

let database: TestDatabase;
let db: Database;
let other: Database;

beforeAll(async () => {
  database = await testDatabase();
  db = openDatabase({ url: database.url, max_connections: 2 });
  other = openDatabase({ url: database.url, max_connections: 1 });
  await other.query('create table things (thing integer)');
  await other.query('insert into things values (1)');
});

afterAll(async () => {
  await db.close();
  await other.close();
  await database.drop();
});

const often = (on: Queryable) => on.query('select * from things where thing = $1', [1], { often: true });

test('a statement that is planned once is not planned again', async () => {
  await db.transaction(async (tx) => {
    await often(tx);
    await often(tx);
    const planned = await tx.query('select name from pg_prepared_statements where statement like $1', [
      '%from things%',
    ]);
    expect(planned).toHaveLength(1);
  });
});

test('a table that another replica changes is read as it is now, alone and in a transaction', async () => {
  await other.query('alter table things add column colour text default $$red$$');
  expect(await often(db)).toEqual([{ thing: 1, colour: 'red' }]);
  await db.transaction(often);
  await other.query('alter table things add column size integer default 7');
  expect(await db.transaction(often)).toEqual([{ thing: 1, colour: 'red', size: 7 }]);
  expect(await often(db)).toEqual([{ thing: 1, colour: 'red', size: 7 }]);
});
