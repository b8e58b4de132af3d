/** Retention keeps some rows of small tables although their time is over. */
import { afterAll, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { daySeconds, retentionFixture } from '../testing/retention-fixture.ts';

const store = await testStore();
const { db } = store;
const { fleet, passDays, later, pruneAll, insertOperation } = await retentionFixture(db);
afterAll(() => store.close());

test('keeps the newest gap and budget, replicas that stored heartbeats last or have work, and open holds and windows', async () => {
  const start = fleet.now();
  await db.query(`insert into ingest_gaps (started_at, ended_at, cause) values ($1, $1, 'a'), ($2, $2, 'b')`, [
    start,
    later(60),
  ]);
  await db.query(
    `insert into replicas (replica_id, host, pid, address, version, started_at, lease_until, ended_at, flushed_through)
     select id, 'h', 1, '', '1', $1::timestamptz, $1::timestamptz, $1::timestamptz, flushed
     from (values ('old', $1::timestamptz), ('listening', $2::timestamptz), ('working', $1::timestamptz)) as row(id, flushed)`,
    [start, later(60)],
  );
  const work = await insertOperation({ status: 'running' });
  await db.query(`update operations set replica_id = 'working' where workflow_id = $1`, [work]);
  await db.query(
    `insert into budget_changes (pool, at, from_seconds, seconds) values ('test', $1, 1, 2), ('test', $2, 2, 3)`,
    [start, later(60)],
  );
  await db.query(
    `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until, ended_at)
     values ('ended', 'self-fault', 'r', 'pool', 'p', 'x', 1, 1, $1, $1, $1), ('held', 'self-fault', 'r', 'pool', 'p', 'x', 1, 1, $1, $1, null)`,
    [start],
  );
  await db.query(
    `insert into maintenance_windows (name, starts_at, ends_at, reason, created_at) values ('past', $1, $1, 'x', $1), ('coming', $1, $2, 'x', $1)`,
    [start, later(200 * daySeconds)],
  );
  await passDays(91);
  await pruneAll();
  const names = async (sql: string) => (await db.query<{ name: string }>(sql)).map(({ name }) => name);
  expect(await names('select cause as name from ingest_gaps')).toEqual(['b']);
  expect(await names('select replica_id as name from replicas order by 1')).toEqual(['listening', 'working']);
  expect(await names('select seconds::text as name from budget_changes')).toEqual(['3']);
  expect(await names('select hold_id as name from brake_holds')).toEqual(['held']);
  expect(await names('select name from maintenance_windows')).toEqual(['coming']);
});
