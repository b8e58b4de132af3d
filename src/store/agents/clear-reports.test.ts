/** Tests that a new tenant sees no report of the former one, not even one that is stored late. */
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

it('uses the database clock if the replica clock is behind', async () => {
  const { db } = store;
  const node = await fleet.node('ready');
  const [{ at } = { at: fleet.now() }] = await db.query<{ at: Date }>(`select clock_timestamp() as at`);
  const node_instance_id = node.node_instance_id as NodeInstanceId;
  const storeBeat = (received_at: Date) =>
    db.transaction((tx) =>
      storeBeats(tx, [
        {
          ...{ node_instance_id, interval_seconds: 10, stale_seconds: 30, has_assigned_interval: true },
          received_ms: received_at.getTime(),
          reported: { message: 'from the former tenant' },
        },
      ]),
    );
  await storeBeat(secondsLater(at, -2));
  await db.transaction((tx) => clearReports(tx, [node], secondsLater(at, -5)));
  await storeBeat(secondsLater(at, -1));
  expect((await readNode(db, node.node_id, wholeFleet))?.reported?.message).toBeUndefined();
  await db.query(`delete from heartbeats where node_instance_id = $1`, [node_instance_id]);
});

it('keeps the report as evidence and drops older reports that arrive later', async () => {
  const { db } = store;
  const node = await fleet.node('ready');
  const node_instance_id = node.node_instance_id as NodeInstanceId;
  const storeBeat = (received_at: Date, message: string | null) =>
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
  const readMessage = async () => (await readNode(db, node.node_id, wholeFleet))?.reported?.message;
  const start = fleet.now();
  await storeBeat(start, 'from the former tenant');
  expect(await readMessage()).toBe('from the former tenant');
  await db.transaction((tx) => clearReports(tx, [node], secondsLater(start, 10)));
  expect(await readMessage(), 'the report is cleared').toBeUndefined();
  await storeBeat(secondsLater(start, 9), 'from the former tenant, stored late');
  expect(await readMessage(), 'an older report is dropped').toBeUndefined();
  await storeBeat(secondsLater(start, 11), 'from the new tenant');
  await storeBeat(secondsLater(start, 12), null);
  expect(await readMessage(), 'a newer report is kept').toBe('from the new tenant');
  const evidence = await db.query(
    `select data -> 'reported' ->> 'message' as message, allocation_id, origin
     from evidence
     where kind = 'node.reports_cleared'
       and node_id = $1`,
    [node.node_id],
  );
  expect(evidence).toEqual([{ message: 'from the former tenant', allocation_id: null, origin: 'report' }]);
});
