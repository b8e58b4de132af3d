/** The bytes of the tables are counted under their class of retention. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { bytesByUse } from './disk-use.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

test('counts the rows of a table, a partition and a seal under their class', async () => {
  const { db } = store;
  const before = await bytesByUse(db);
  await db.query(
    `insert into idempotency_keys (token_id, key, request_hash, created_at)
     select 't', 'key ' || i, 'x', now() from generate_series(1, 2000) as i`,
  );
  await db.query(
    `insert into evidence (at, layer, kind, summary)
     select now(), 'node', 'test.fact', repeat('x', 100) from generate_series(1, 2000) as i`,
  );
  const after = await bytesByUse(db);
  const grown = [...after].filter(([use, bytes]) => bytes > (before.get(use) ?? 0)).map(([use]) => use);
  expect(grown.sort()).toEqual(['evidence', 'requests']);
  const [all] = await db.query<{ bytes: string }>(
    `select sum(pg_total_relation_size(oid)) as bytes from pg_class
     where relnamespace in (select oid from pg_namespace where nspname in ('public', 'dbos')) and relkind = 'r'`,
  );
  expect([...after.values()].reduce((sum, bytes) => sum + bytes, 0)).toBe(Number(all?.bytes));
});
