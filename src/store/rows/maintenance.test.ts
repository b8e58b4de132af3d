/**
 * Tests when a maintenance window is active, and that code and SQL agree on the nodes it covers.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import type { Labels } from '../../contract/primitives.ts';
import type { Database } from '../pg/database.ts';
import { placeNodes, readPlacedRows } from '../testing/placed-nodes.ts';
import {
  coversNode,
  isUncovered,
  listActiveWindows,
  listWindows,
  type MaintenanceRow,
  putWindow,
} from './maintenance.ts';
import type { NodeRow } from './nodes.ts';
import { declarePool } from './pools.ts';

let store: TestStore;
let db: Database;
beforeAll(async () => {
  store = await testStore();
  db = store.db;
});
afterAll(() => store.close());

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);

const put = (window: Partial<MaintenanceRow>) =>
  db.transaction((tx) =>
    putWindow(tx, {
      name: 'work',
      pool: null,
      zone: null,
      labels: {},
      starts_at: at(0),
      ends_at: at(100),
      reason: 'new racks',
      actor: null,
      created_at: start,
      ...window,
    }),
  );

test('code and SQL agree on the nodes that a window covers', async () => {
  for (const pool of ['a', 'b']) await db.transaction((tx) => declarePool(tx, pool, { driver: 'external' }, start));
  const labelSets: Labels[] = [{}, { rack: 'r1' }, { rack: 'r1', team: 'x' }, { rack: 'r2' }];
  let placedCount = 0;
  for (const pool of ['a', 'b'])
    for (const zone of [null, 'eu-1', 'us-1'])
      for (const labels of labelSets)
        await placeNodes(db, { pool, zone, labels, count: 1, after: placedCount++, since: start });
  const nodes = await readPlacedRows(db);
  let covered = 0;
  for (const pool of [null, 'a'])
    for (const zone of [null, 'eu-1'])
      for (const labels of labelSets) {
        const window = await put({ pool, zone, labels });
        const bySql = await db.query<NodeRow>(
          `select * from nodes node where not ${isUncovered('$1::timestamptz')} order by node_id`,
          [at(1)],
        );
        const byCode = nodes.filter((node) => coversNode(window, node));
        expect(bySql.map((node) => node.node_id)).toEqual(byCode.map((node) => node.node_id));
        covered += byCode.length;
      }
  expect(covered).toBeGreaterThan(nodes.length);
});

test('a window is active from its start until its end, and is listed until its end', async () => {
  await put({ pool: 'a', starts_at: at(10), ends_at: at(20) });
  const names = async (read: typeof listActiveWindows, seconds: number) =>
    (await read(db, at(seconds))).map((window) => window.name);
  expect(await names(listActiveWindows, 9.999)).toEqual([]);
  expect(await names(listActiveWindows, 10)).toEqual(['work']);
  expect(await names(listActiveWindows, 19.999)).toEqual(['work']);
  expect(await names(listActiveWindows, 20)).toEqual([]);
  expect(await names(listWindows, 0)).toEqual(['work']);
  expect(await names(listWindows, 20)).toEqual([]);
});
