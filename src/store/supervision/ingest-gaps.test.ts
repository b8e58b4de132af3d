/** Gaps of our own: recorded once, by the first replica after them, and judged by no rule. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { NodeId, ReplicaId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';
import { declarePool } from '../rows/pools.ts';
import { hearThrough, type PlacedNodes, placedRows, placeNodes } from '../testing/placed-nodes.ts';
import { newestGaps, publishHeard, slowestReplica } from './ingest-gaps.ts';

let store: TestStore;
let db: Database;
beforeEach(async () => {
  store = await testStore();
  db = store.db;
  await db.transaction((tx) => declarePool(tx, 'p', { driver: 'external' }, start));
});
afterEach(async () => {
  await store.close();
});

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);
const patience = 10;
const one = 'rep_1' as ReplicaId;
const two = 'rep_2' as ReplicaId;

/** A replica publishes that it stored everything, or everything until `stored` seconds ago. */
const says = (replica_id: ReplicaId, seconds: number, stored = seconds) =>
  publishHeard(db, { replica_id, flushed_through: at(stored) }, patience, at(seconds));

const place = (wanted: Partial<PlacedNodes>) =>
  placeNodes(db, { pool: 'p', count: 1, status: 'provisioning', since: at(-100), ...wanted });

const deadlines = async (ids: readonly NodeId[]) =>
  (await placedRows(db, ids)).map(({ deadline_at }) => secondsBetween(start, deadline_at as Date));

const movedFacts = async () =>
  (await db.query<{ count: number }>(`select count(*)::int from evidence where kind = 'node.deadline_moved'`))[0]
    ?.count;

test('records no gap while one replica publishes', async () => {
  for (const replica of [one, two]) await hearThrough(db, replica, at(0));
  for (const seconds of [9, 18, 27]) expect((await says(one, seconds)).gap).toBeUndefined();
  // The other replica was away, but no heartbeat was missed.
  expect((await says(two, 28)).gap).toBeUndefined();
  expect(await newestGaps(db, 10)).toEqual([]);
});

test('records no gap at the very first start', async () => {
  await hearThrough(db, one, at(0));
  await db.query('update replicas set flushed_through = null');
  expect((await says(one, 500)).gap).toBeUndefined();
});

test('moves deadlines by the part of the gap that each row spent in its status', async () => {
  await hearThrough(db, one, at(0));
  const [waiting] = await place({ deadline_at: at(30) });
  const [endedInGap] = await place({ deadline_at: at(5), after: 1 });
  const [overBefore] = await place({ deadline_at: at(-1), after: 2 });
  const [beganInGap] = await place({ deadline_at: at(60), since: at(15), after: 3 });
  const ids = [waiting, endedInGap, overBefore, beganInGap] as NodeId[];
  const { gap } = await says(one, 20);
  expect(gap).toMatchObject({ started_at: at(0), ended_at: at(20), nodes_moved: 3 });
  expect(await deadlines(ids)).toEqual([50, 25, -1, 65]);
});

test('moves the deadlines of allocations with their nodes, and their own ones', async () => {
  await hearThrough(db, one, at(0));
  const [node] = await place({ deadline_at: at(30) });
  await db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, deadline_at, correlation_id, created_at) values
       ('alloc_1', 'p', $1, 't', 'provisioning', $2, $3, 'c', $2), ('alloc_2', 'p', null, 't', 'requested', $2, $4, 'c', $2),
       ('alloc_3', 'p', null, 't', 'releasing', $2, $4, 'c', $2), ('alloc_4', 'p', null, 't', 'failed', $2, $4, 'c', $2)`,
    [node, at(-100), at(30), at(40)],
  );
  const { gap } = await says(one, 20);
  expect(gap).toMatchObject({ nodes_moved: 1, allocations_moved: 2 });
  const rows = await db.query<{ deadline_at: Date }>('select deadline_at from allocations order by allocation_id');
  expect(rows.map(({ deadline_at }) => secondsBetween(start, deadline_at))).toEqual([50, 60, 60, 40]);
});

test('clears observe-only verdicts of rules, and keeps those from reports', async () => {
  await hearThrough(db, one, at(0));
  const ids = await place({ count: 2, status: 'starting', deadline_at: at(30) });
  const rules = ['start-deadline', 'prerequisite-missing'];
  for (const [i, rule] of rules.entries())
    await db.query('update nodes set would_have = $2 where node_id = $1', [ids[i], { rule, to: 'failed' }]);
  await says(one, 20);
  expect((await placedRows(db, ids)).map(({ would_have }) => would_have?.rule)).toEqual([undefined, rules[1]]);
});

test('records one gap for replicas that return together', async () => {
  for (const replica of [one, two]) await hearThrough(db, replica, at(0));
  const ids = await place({ count: 50, deadline_at: at(30) });
  const found = await Promise.all([says(one, 20), says(two, 20.1), says(one, 20.2), says(two, 20.3)]);
  expect(found.filter(({ gap }) => gap)).toHaveLength(1);
  expect(await newestGaps(db, 10)).toHaveLength(1);
  expect(await movedFacts()).toBe(50);
  const moved = new Set(await deadlines(ids));
  expect(moved.size).toBe(1);
});

test('moves deadlines once per gap', async () => {
  await hearThrough(db, one, at(0));
  const ids = await place({ deadline_at: at(30) });
  await says(one, 20);
  await says(one, 45);
  expect(await deadlines(ids)).toEqual([75]);
  expect(await newestGaps(db, 10)).toHaveLength(2);
});

test('records a gap as a whole after a replica can store again', async () => {
  await hearThrough(db, one, at(0));
  const ids = await place({ deadline_at: at(30) });
  for (const seconds of [20, 21, 22, 40]) {
    expect(await says(one, seconds, 0)).toMatchObject({ gap: undefined, deaf: true });
    expect(await slowestReplica(db, at(5)), 'nobody may think that all was stored').toEqual(at(0));
  }
  const { gap, deaf } = await says(one, 50, 49.9);
  expect(deaf).toBe(false);
  expect(gap).toMatchObject({ started_at: at(0), ended_at: at(50) });
  expect(await deadlines(ids)).toEqual([80]);
});
