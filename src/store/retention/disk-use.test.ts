/** The bytes of the tables are counted under their class of retention. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { readBytesByUse } from './disk-use.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

test('counts the bytes of a table and of a partition under their class, and no table twice', async () => {
  const { db } = store;
  const before = await readBytesByUse(db);
  await db.query(
    `insert into idempotency_keys (token_id, key, request_hash, created_at)
     select 't', 'key ' || i, 'x', now() from generate_series(1, 2000) as i`,
  );
  await db.query(
    `insert into evidence (at, layer, kind, summary)
     select now(), 'node', 'test.fact', repeat('x', 100) from generate_series(1, 2000) as i`,
  );
  const after = await readBytesByUse(db);
  const grown = [...after].filter(([use, bytes]) => bytes > (before.get(use) ?? 0)).map(([use]) => use);
  expect(grown.sort()).toEqual(['evidence', 'requests']);
  const [all] = await db.query<{ bytes: string }>(
    `select sum(pg_total_relation_size(oid)) as bytes from pg_class
     where relnamespace in (select oid from pg_namespace where nspname in ('public', 'dbos')) and relkind = 'r'`,
  );
  expect([...after.values()].reduce((sum, bytes) => sum + bytes, 0)).toBe(Number(all?.bytes));
});
