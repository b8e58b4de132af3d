/** Tests prepared statements after changes of their tables, and parallel reads. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts';
import { type Database, openDatabase, type Queryable, readAll, withinTransaction } from './database.ts';

let database: TestDatabase;
let db: Database;
let other: Database;

beforeAll(async () => {
  database = await testDatabase();
  db = openDatabase({ url: database.url, max_connections: 3 });
  other = openDatabase({ url: database.url, max_connections: 1 });
  await other.query('create table things (thing integer)');
  await other.query('insert into things values (1)');
});

afterAll(async () => {
  await db.close();
  await other.close();
  await database.drop();
});

const readThings = (on: Queryable) => on.query('select * from things where thing = $1', [1], { prepared: true });

test('prepares a statement once per connection', async () => {
  await db.transaction(async (tx) => {
    await readThings(tx);
    await readThings(tx);
    const prepared = await tx.query('select name from pg_prepared_statements where statement like $1', [
      '%from things%',
    ]);
    expect(prepared).toHaveLength(1);
  });
});

test('reads new columns that another replica adds, inside and outside a transaction', async () => {
  await other.query('alter table things add column colour text default $$red$$');
  expect(await readThings(db)).toEqual([{ thing: 1, colour: 'red' }]);
  await db.transaction(readThings);
  await other.query('alter table things add column size integer default 7');
  expect(await db.transaction(readThings)).toEqual([{ thing: 1, colour: 'red', size: 7 }]);
  expect(await readThings(db)).toEqual([{ thing: 1, colour: 'red', size: 7 }]);
});

/** Returns the results of three reads and the maximum number that ran at the same time. */
async function runThree(on: Queryable) {
  let running = 0;
  let maxRunning = 0;
  const read = (value: number) => async () => {
    maxRunning = Math.max(maxRunning, ++running);
    const [row] = await on.query<{ value: number }>('select $1::int as value', [value]);
    running--;
    return row?.value;
  };
  return { results: await readAll(on, [read(1), read(2), read(3)]), maxRunning };
}

test('runs independent reads in parallel on a pool, with the results in order', async () => {
  expect(await runThree(db)).toEqual({ results: [1, 2, 3], maxRunning: 3 });
});

test('runs independent reads one after another in a transaction', async () => {
  const oneAtATime = { results: [1, 2, 3], maxRunning: 1 };
  expect(await db.transaction(runThree)).toEqual(oneAtATime);
  const within = db.transaction((tx) => runThree(withinTransaction(db, tx)));
  expect(await within, 'also with a database that runs all statements in the transaction').toEqual(oneAtATime);
});

test('rejects when a read throws before it returns a promise', async () => {
  const throws = () => {
    throw new Error('no such table');
  };
  await expect(readAll(db, [async () => 1, throws])).rejects.toThrow('no such table');
});
