import { Client } from 'pg';
import { expect, test } from 'vitest';
import { emptyDatabase, testDatabase } from './database.ts';

async function query(url: string, sql: string) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test('concurrent clones are separate databases, and one can be dropped', async () => {
  const [first, second] = await Promise.all([testDatabase(), testDatabase(), emptyDatabase()]);
  await query(first.url, 'CREATE TABLE only_here (id int)');
  expect(await query(first.url, 'SELECT * FROM only_here')).toEqual([]);
  await expect(query(second.url, 'SELECT * FROM only_here')).rejects.toThrow(/does not exist/);
  await first.drop();
  await expect(query(first.url, 'SELECT 1')).rejects.toThrow(/does not exist/);
});

test('drops a database that still has a connection', async () => {
  const database = await testDatabase();
  const lingering = new Client({ connectionString: database.url });
  const ended = new Promise((resolve) => lingering.on('error', resolve));
  await lingering.connect();
  await database.drop();
  expect(await ended).toMatchObject({ code: '57P01' });
});
