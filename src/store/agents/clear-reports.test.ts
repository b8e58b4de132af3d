/** A machine that goes to a new tenant leaves its last report behind, also one that was on its way to the table. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { storeBeats } from '../heartbeats/store-heartbeats.ts';
import { readNode } from '../rows/nodes.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { clearReports } from './clear-reports.ts';

let store: TestStore;
let fleet: Fleet;
beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
});
afterAll(() => store.close());

it('counts by the clock of the database where the replica is behind it', async () => {
  const { db } = store;
  const node = await fleet.node('ready');
  const [{ at } = { at: fleet.now() }] = await db.query<{ at: Date }>(`select clock_timestamp() as at`);
  const node_instance_id = node.node_instance_id as NodeInstanceId;
  const beat = (received_at: Date) =>
    db.transaction((tx) =>
      storeBeats(tx, [
        {
          ...{ node_instance_id, interval_seconds: 10, stale_seconds: 30, has_assigned_interval: true },
          received_ms: received_at.getTime(),
          reported: { message: 'of the former' },
        },
      ]),
    );
  await beat(secondsLater(at, -2));
  await db.transaction((tx) => clearReports(tx, [node], secondsLater(at, -5)));
  await beat(secondsLater(at, -1));
  expect((await readNode(db, node.node_id, wholeFleet))?.reported?.message).toBeUndefined();
  await db.query(`delete from heartbeats where node_instance_id = $1`, [node_instance_id]);
});

it('keeps the report for operators and takes no older one any more', async () => {
  const { db } = store;
  const node = await fleet.node('ready');
  const node_instance_id = node.node_instance_id as NodeInstanceId;
  const beat = (received_at: Date, message: string | null) =>
    db.transaction((tx) =>
      storeBeats(tx, [
        {
          node_instance_id,
          received_ms: received_at.getTime(),
          interval_seconds: 10,
          stale_seconds: 30,
          has_assigned_interval: true,
          reported: message === null ? null : { message },
        },
      ]),
    );
  const shown = async () => (await readNode(db, node.node_id, wholeFleet))?.reported?.message;
  const start = fleet.now();
  await beat(start, 'of the former');
  expect(await shown()).toBe('of the former');
  await db.transaction((tx) => clearReports(tx, [node], secondsLater(start, 10)));
  expect(await shown(), 'cleared').toBeUndefined();
  await beat(secondsLater(start, 9), 'of the former, received before and stored after');
  expect(await shown(), 'late').toBeUndefined();
  await beat(secondsLater(start, 11), 'of the present');
  await beat(secondsLater(start, 12), null);
  expect(await shown(), 'since').toBe('of the present');
  const kept = await db.query(
    `select data -> 'reported' ->> 'message' as message, allocation_id, origin from evidence where kind = 'node.reports_cleared' and node_id = $1`,
    [node.node_id],
  );
  expect(kept).toEqual([{ message: 'of the former', allocation_id: null, origin: 'report' }]);
});
