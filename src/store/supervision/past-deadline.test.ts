/**
 * Rows past their deadline are returned oldest first, up to a limit, and are locked by one replica
 * at a time. Failed releases are retried after growing pauses.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { readAllocation } from '../rows/allocations.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { lockDueNodes, lockRetryableReleases } from './past-deadline.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

describe('due rows', () => {
  test('are returned oldest first, only from their deadline on, and up to the limit', async () => {
    const nodes = [];
    for (let i = 0; i < 4; i++) nodes.push(await fleet.node('offline'));
    const [first, , third] = nodes.map((node) => node.deadline_at as Date);
    const readDueIds = (now: Date, limit: number) =>
      db.transaction(async (tx) =>
        (await lockDueNodes(tx, { status: 'offline', now }, limit)).map((node) => node.node_id),
      );
    expect(await readDueIds(secondsLater(first as Date, -0.001), 10)).toEqual([]);
    expect(await readDueIds(third as Date, 10)).toEqual(nodes.slice(0, 3).map((node) => node.node_id));
    expect(await readDueIds(third as Date, 2)).toEqual(nodes.slice(0, 2).map((node) => node.node_id));
    expect(await db.transaction((tx) => lockDueNodes(tx, { status: 'failed', now: third as Date }, 10))).toEqual([]);
  });

  test('are locked by only one replica at a time', async () => {
    const node = await fleet.node('draining');
    const now = secondsLater(node.deadline_at as Date, 1);
    await db.transaction(async (tx) => {
      expect((await lockDueNodes(tx, { status: 'draining', now }, 10)).length).toBe(1);
      expect(await db.transaction((other) => lockDueNodes(other, { status: 'draining', now }, 10))).toEqual([]);
    });
  });
});

test('a failed release is retried after pauses that double up to 15 minutes, then hourly', async () => {
  const allocation = await fleet.allocation('release_failed');
  const pauseAfter = async (tries: number): Promise<number> => {
    await db.query('update allocations set release_tries = $2 where allocation_id = $1', [
      allocation.allocation_id,
      tries,
    ]);
    const allocationView = await readAllocation(db, allocation.allocation_id, wholeFleet, allocation.status_since);
    for (const seconds of [30, 60, 120, 240, 480, 900, 3600]) {
      const at = secondsLater(allocation.status_since, seconds);
      if ((await db.transaction((tx) => lockRetryableReleases(tx, secondsLater(at, -0.001), 10))).length > 0)
        return Number.NaN;
      if ((await db.transaction((tx) => lockRetryableReleases(tx, at, 10))).length === 0) continue;
      expect(allocationView).toMatchObject({ release_tries: tries, retry_at: at.toISOString() });
      return seconds;
    }
    return Number.POSITIVE_INFINITY;
  };
  const pauses = [];
  for (const tries of [1, 2, 3, 5, 6, 8, 9, 50]) pauses.push(await pauseAfter(tries));
  expect(pauses).toEqual([30, 60, 120, 480, 900, 900, 3600, 3600]);
});
