/** Rows are deleted when the time of their class is over, in batches that any replica may run. */
import { afterAll, describe, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { firstIdAt } from '../../base/ids.ts';
import { defaultRetentionSeconds, otherTables, timedClasses } from '../../lifecycle/limits/retention-classes.ts';
import { verifySlice } from '../history/verify-rows.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import { daySeconds, retentionFixture } from '../testing/retention-fixture.ts';
import { createPruner } from './prune.ts';
import { pageSize, walks } from './walks.ts';

const store = await testStore();
const { db } = store;
const { fleet, passDays, pruneAll, exists, insertOperation, createLife, findRemains, readPrunedFacts } =
  await retentionFixture(db);
afterAll(() => store.close());

test('every table has one class of retention', async () => {
  const tables = await db.query<{ name: string }>(
    `select relname as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  const classed = [...Object.values(timedClasses).flatMap((each) => [...each.tables]), ...Object.keys(otherTables)];
  expect(classed.filter((name) => !name.startsWith('dbos.')).sort()).toEqual(tables.map(({ name }) => name).sort());
});

describe('a released allocation and its retired machine', () => {
  test('are deleted when their time is over, tasks and logs first, and leave a fact', async () => {
    const life = await createLife();
    await passDays(29);
    await pruneAll();
    const all = await findRemains(life);
    expect(all).toContain('tasks');
    expect(all).toContain('node_log_chunks');
    await passDays(2);
    expect(await pruneAll()).toBe(2);
    expect(await findRemains(life)).toEqual(all.filter((name) => name !== 'tasks' && name !== 'node_log_chunks'));
    await passDays(58);
    expect(await pruneAll()).toBe(0);
    await passDays(2);
    await pruneAll();
    expect(await findRemains(life)).toEqual([]);
    expect(await readPrunedFacts('allocation_id', life.allocation.allocation_id)).toEqual([
      {
        kind: 'allocation.pruned',
        data: expect.objectContaining({ retention: 'allocations', keep_seconds: 90 * daySeconds, tenant: 'acme' }),
      },
    ]);
    expect(await readPrunedFacts('node_id', life.node.node_id)).toMatchObject([
      { kind: 'node.pruned', data: { retention: 'nodes', keep_seconds: 90 * daySeconds } },
    ]);
  });

  test('leave evidence that verification explains, unlike a deletion by hand', async () => {
    const life = await createLife();
    const byHand = await fleet.allocation('released');
    await passDays(91);
    await pruneAll();
    const listRowless = async () => {
      const slices = [
        await verifySlice(db, 'nodes', { cursor: '', limit: 10_000 }, defaultRetentionSeconds),
        await verifySlice(db, 'allocations', { cursor: '', limit: 10_000 }, defaultRetentionSeconds),
      ];
      return slices.flatMap(({ differing }) => differing).filter(({ ours }) => Object.keys(ours).length === 0);
    };
    expect(await findRemains(life)).toEqual([]);
    expect(await listRowless()).toEqual([]);
    const other = await fleet.allocation('released');
    await db.query('delete from allocations where allocation_id = $1', [other.allocation_id]);
    expect(await listRowless()).toMatchObject([{ subject: other.allocation_id }]);
    expect(await exists('allocations', 'allocation_id', byHand.allocation_id)).toBe(false);
  });
});

test('a walk continues after a page of rows that stay', async () => {
  const { node_id } = await fleet.node('quarantined');
  for (let n = 0; n < pageSize; n++) await insertOperation({ node_id });
  const ended = await insertOperation();
  await passDays(91);
  const pruner = createPruner(db);
  expect(await pruner.pass(defaultRetentionSeconds, fleet.now())).toMatchObject({ more: true });
  expect(await exists('operations', 'workflow_id', ended)).toBe(true);
  await pruner.pass(defaultRetentionSeconds, fleet.now());
  expect(await exists('operations', 'workflow_id', ended)).toBe(false);
});

test('walks of different lengths end together', async () => {
  const { node_id } = await fleet.node('quarantined');
  for (let n = 0; n < pageSize; n++) await insertOperation({ node_id });
  await db.query(
    `insert into instances (node_instance_id, node_id, attempt, created_at, fenced_at, credential_hash)
     select $1 || lpad(i::text, 11, '0'), $2, i, $3, $3, sha256(i::text::bytea)
     from generate_series(10, $4::int) as i`,
    [firstIdAt('instance', fleet.now()), node_id, fleet.now(), 10 + 4 * pageSize],
  );
  await passDays(91);
  await pruneAll();
  const pruner = createPruner(db);
  let passes = 1;
  while ((await pruner.pass(defaultRetentionSeconds, fleet.now())).more) passes++;
  // The instances fill four pages, and one more is on a fifth page.
  expect(passes).toBe(5);
  await db.query('delete from instances where node_id = $1 and attempt >= 10', [node_id]);
});

test('a crash in any batch leaves either the row or its fact, and the next pass finishes', async () => {
  const lives = [await createLife(), await createLife()];
  await passDays(91);
  let crashes = 0;
  for (let crashAt = 0; crashAt < walks.length; crashAt++) {
    const before = await Promise.all(lives.map(findRemains));
    let batches = 0;
    const crashing: Database = {
      ...db,
      transaction: (work) =>
        db.transaction(async (tx) => {
          const result = await work(tx);
          if (batches++ === crashAt) throw new StoreUnavailable('crash');
          return result;
        }),
    };
    const pass = createPruner(crashing).pass(defaultRetentionSeconds, fleet.now());
    const outcome = await pass.then(
      () => 'ended',
      (error: Error) => error.message,
    );
    if (outcome === 'ended') break;
    expect(outcome).toBe('crash');
    crashes++;
    if (crashAt === 0) expect(await Promise.all(lives.map(findRemains))).toEqual(before);
    for (const { allocation } of lives)
      expect(await readPrunedFacts('allocation_id', allocation.allocation_id)).toHaveLength(
        (await exists('allocations', 'allocation_id', allocation.allocation_id)) ? 0 : 1,
      );
  }
  expect(crashes).toBeGreaterThan(1);
  await pruneAll();
  expect(await Promise.all(lives.map(findRemains))).toEqual([[], []]);
});

test('records each row once when several replicas prune concurrently', async () => {
  const lives = await Promise.all(Array.from({ length: 8 }, createLife));
  await passDays(91);
  await Promise.all([pruneAll(), pruneAll(), pruneAll()]);
  await pruneAll();
  for (const life of lives) {
    expect(await findRemains(life)).toEqual([]);
    expect(await readPrunedFacts('allocation_id', life.allocation.allocation_id)).toHaveLength(1);
    expect(await readPrunedFacts('node_id', life.node.node_id)).toHaveLength(1);
  }
});
