/** Ingest gaps are recorded once, by the first replica that can store again, and move deadlines. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { NodeId, ReplicaId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';
import { declarePool } from '../rows/pools.ts';
import { type PlacedNodes, placeNodes, readPlacedRows, storeReplica } from '../testing/placed-nodes.ts';
import { publishStoredThrough, readNewestGaps, readStoredThrough } from './ingest-gaps.ts';

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
const minGapSeconds = 10;
const one = 'rep_1' as ReplicaId;
const two = 'rep_2' as ReplicaId;

/** Publishes at `seconds` that the replica has stored all heartbeats before `stored`. */
const publish = (replica_id: ReplicaId, seconds: number, stored = seconds) =>
  publishStoredThrough(db, { replica_id, flushed_through: at(stored) }, minGapSeconds, at(seconds));

const place = (wanted: Partial<PlacedNodes>) =>
  placeNodes(db, { pool: 'p', count: 1, status: 'provisioning', since: at(-100), ...wanted });

const readDeadlines = async (ids: readonly NodeId[]) =>
  (await readPlacedRows(db, ids)).map(({ deadline_at }) => secondsBetween(start, deadline_at as Date));

const countMovedFacts = async () =>
  (await db.query<{ count: number }>(`select count(*)::int from evidence where kind = 'node.deadline_moved'`))[0]
    ?.count;

test('records no gap while at least one replica publishes', async () => {
  for (const replica of [one, two]) await storeReplica(db, replica, at(0));
  for (const seconds of [9, 18, 27]) expect((await publish(one, seconds)).gap).toBeUndefined();
  // The other replica was away, but no heartbeat was missed.
  expect((await publish(two, 28)).gap).toBeUndefined();
  expect(await readNewestGaps(db, 10)).toEqual([]);
});

test('two replicas that notice a jump of the clock record one gap, although one publishes in between', async () => {
  for (const replica of [one, two]) await storeReplica(db, replica, at(0));
  const [node] = (await place({ deadline_at: at(60) })) as [NodeId];
  const locked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const holdsNode = db.transaction(async (tx) => {
    await tx.query('select from nodes where node_id = $1 for update', [node]);
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  const untilWaiting = (sessions: number) =>
    until(`${sessions} sessions to wait for a lock`, async () => {
      const [row] = await db.query<{ count: number }>(
        `select count(*)::int from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return row?.count === sessions;
    });
  const first = publish(one, 3600);
  await untilWaiting(1);
  // The other replica still follows the old clock.
  await publish(two, 1);
  const second = publish(two, 3600.5);
  await untilWaiting(2);
  released.resolve();
  await holdsNode;
  const gaps = (await Promise.all([first, second])).map(({ gap }) => gap?.ended_at);
  expect(gaps).toEqual([at(3600), undefined]);
  expect(await readDeadlines([node])).toEqual([3660]);
});

test('records no gap at the very first start', async () => {
  await storeReplica(db, one, at(0));
  await db.query('update replicas set flushed_through = null');
  expect((await publish(one, 500)).gap).toBeUndefined();
});

test('moves deadlines by the part of the gap that each row spent in its status', async () => {
  await storeReplica(db, one, at(0));
  const [waiting] = await place({ deadline_at: at(30) });
  const [endedInGap] = await place({ deadline_at: at(5), after: 1 });
  const [endedBefore] = await place({ deadline_at: at(-1), after: 2 });
  const [beganInGap] = await place({ deadline_at: at(60), since: at(15), after: 3 });
  const ids = [waiting, endedInGap, endedBefore, beganInGap] as NodeId[];
  const { gap } = await publish(one, 20);
  expect(gap).toMatchObject({ started_at: at(0), ended_at: at(20), nodes_moved: 3 });
  expect(await readDeadlines(ids)).toEqual([50, 25, -1, 65]);
});

test('moves deadlines that allocations share with a node, and those of waiting allocations', async () => {
  await storeReplica(db, one, at(0));
  const [node] = await place({ deadline_at: at(30) });
  await db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, deadline_at, correlation_id, created_at) values
       ('alloc_1', 'p', $1, 't', 'provisioning', $2, $3, 'c', $2), ('alloc_2', 'p', null, 't', 'requested', $2, $4, 'c', $2),
       ('alloc_3', 'p', null, 't', 'releasing', $2, $4, 'c', $2), ('alloc_4', 'p', null, 't', 'failed', $2, $4, 'c', $2)`,
    [node, at(-100), at(30), at(40)],
  );
  const { gap } = await publish(one, 20);
  expect(gap).toMatchObject({ nodes_moved: 1, allocations_moved: 2 });
  const rows = await db.query<{ deadline_at: Date }>('select deadline_at from allocations order by allocation_id');
  expect(rows.map(({ deadline_at }) => secondsBetween(start, deadline_at))).toEqual([50, 60, 60, 40]);
});

test('clears observe-only verdicts of rules, and keeps those from reports', async () => {
  await storeReplica(db, one, at(0));
  const ids = await place({ count: 2, status: 'starting', deadline_at: at(30) });
  const rules = ['start-deadline', 'prerequisite-missing'];
  for (const [i, rule] of rules.entries())
    await db.query('update nodes set would_have = $2 where node_id = $1', [ids[i], { rule, to: 'failed' }]);
  await publish(one, 20);
  expect((await readPlacedRows(db, ids)).map(({ would_have }) => would_have?.rule)).toEqual([undefined, rules[1]]);
});

test('records only one gap if several replicas return together', async () => {
  for (const replica of [one, two]) await storeReplica(db, replica, at(0));
  const ids = await place({ count: 50, deadline_at: at(30) });
  const results = await Promise.all([publish(one, 20), publish(two, 20.1), publish(one, 20.2), publish(two, 20.3)]);
  expect(results.filter(({ gap }) => gap)).toHaveLength(1);
  expect(await readNewestGaps(db, 10)).toHaveLength(1);
  expect(await countMovedFacts()).toBe(50);
  const moved = new Set(await readDeadlines(ids));
  expect(moved.size).toBe(1);
});

test('moves a deadline by each of two gaps once', async () => {
  await storeReplica(db, one, at(0));
  const ids = await place({ deadline_at: at(30) });
  await publish(one, 20);
  await publish(one, 45);
  expect(await readDeadlines(ids)).toEqual([75]);
  expect(await readNewestGaps(db, 10)).toHaveLength(2);
});

test('records the whole gap when a replica can store again', async () => {
  await storeReplica(db, one, at(0));
  const ids = await place({ deadline_at: at(30) });
  for (const seconds of [20, 21, 22, 40]) {
    expect(await publish(one, seconds, 0)).toMatchObject({ gap: undefined, isIngestStopped: true });
    expect(await readStoredThrough(db, at(5)), 'the published time does not advance').toEqual(at(0));
  }
  const { gap, isIngestStopped } = await publish(one, 50, 49.9);
  expect(isIngestStopped).toBe(false);
  expect(gap).toMatchObject({ started_at: at(0), ended_at: at(50) });
  expect(await readDeadlines(ids)).toEqual([80]);
});
