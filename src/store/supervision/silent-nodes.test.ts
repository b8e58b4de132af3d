/** Tests when a node becomes a suspect, when it counts as silent, and what exempts it. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';
import { declarePool } from '../rows/pools.ts';
import { placeNodes, storeHeartbeats } from '../testing/placed-nodes.ts';
import {
  countSilentNodes,
  lockSilentNodes,
  readNextSilentAt,
  readTightestHeartbeat,
  scanSuspects,
} from './silent-nodes.ts';

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
const stale = 30;
const heartbeat = { interval_seconds: 10, stale_after_seconds: stale };

let placed = 0;
beforeEach(() => {
  placed = 0;
});

/** Places a node whose last heartbeat arrived this many seconds after the start. */
async function addNodeWithBeatAt(
  seconds: number,
  fields: Partial<Parameters<typeof placeNodes>[1]> = {},
): Promise<NodeId> {
  const [id] = await placeNodes(db, { pool: 'p', count: 1, after: placed++, since: at(-3600), ...fields });
  if (!id) throw new Error('no node was placed');
  await storeHeartbeats(db, [id], heartbeat, at(seconds));
  return id;
}

const findSilentAt = (seconds: number, ids: readonly NodeId[]) =>
  db.transaction(async (tx) => (await lockSilentNodes(tx, ids, at(seconds), 10, [])).map((node) => node.node_id));

const findSuspectsAt = async (seconds: number) =>
  (await scanSuspects(db, at(seconds - stale / 2), at(seconds + stale / 2))).map(({ node_id, due_ms }) => [
    node_id,
    due_ms,
  ]);

describe('suspects', () => {
  test('are serving nodes whose present instance has been silent for half of its stale time', async () => {
    const quiet = await addNodeWithBeatAt(0);
    await addNodeWithBeatAt(10);
    await addNodeWithBeatAt(0, { status: 'offline', deadline_at: at(3600) });
    const over = await addNodeWithBeatAt(0);
    await db.query(
      `update heartbeats set over = true where node_instance_id = (select node_instance_id from nodes where node_id = $1)`,
      [over],
    );
    const replaced = await addNodeWithBeatAt(0);
    await db.query(`update nodes set node_instance_id = 'inst_newer' where node_id = $1`, [replaced]);
    expect(await findSuspectsAt(stale / 2)).toEqual([]);
    expect(await findSuspectsAt(stale / 2 + 1)).toEqual([[quiet, at(stale).getTime()]]);
  });

  test('are silent only from the end of an ingest gap', async () => {
    const id = await addNodeWithBeatAt(0);
    await db.query(`insert into ingest_gaps (started_at, ended_at, cause) values ($1, $2, 'test')`, [at(1), at(600)]);
    expect(await findSuspectsAt(600 + stale / 2)).toEqual([]);
    expect(await findSuspectsAt(600 + stale / 2 + 1)).toEqual([[id, at(600 + stale).getTime()]]);
  });
});

describe('silence', () => {
  test('is due just after the stale time, oldest first', async () => {
    const later = await addNodeWithBeatAt(2);
    const first = await addNodeWithBeatAt(0);
    expect(await findSilentAt(stale, [later, first])).toEqual([]);
    expect(await findSilentAt(stale + 1, [later, first])).toEqual([first]);
    expect(await findSilentAt(stale + 3, [later, first])).toEqual([first, later]);
    expect(await readNextSilentAt(db, [later, first], at(stale - 1))).toEqual(at(stale));
    expect(await readNextSilentAt(db, [later, first], at(stale + 1))).toEqual(at(stale + 2));
    expect(await readNextSilentAt(db, [later, first], at(stale + 3))).toBeNull();
  });

  test('does not count before the last transition or before an ingest gap ended', async () => {
    const changed = await addNodeWithBeatAt(0, { since: at(20) });
    expect(await findSilentAt(stale + 1, [changed])).toEqual([]);
    expect(await findSilentAt(20 + stale + 1, [changed])).toEqual([changed]);
    await db.query(`insert into ingest_gaps (started_at, ended_at, cause) values ($1, $2, 'test')`, [at(5), at(40)]);
    expect(await findSilentAt(20 + stale + 1, [changed])).toEqual([]);
    expect(await findSilentAt(40 + stale + 1, [changed])).toEqual([changed]);
  });

  test('of a held node is not judged before the hold ends', async () => {
    const id = await addNodeWithBeatAt(0);
    await db.query(`update nodes set held = $2 where node_id = $1`, [id, { rule: 'liveness', held_until: at(100) }]);
    expect(await findSilentAt(99, [id])).toEqual([]);
    expect(await findSilentAt(100, [id])).toEqual([id]);
  });

  test('is recorded once in an observe-only pool until the next heartbeat', async () => {
    await db.transaction((tx) => declarePool(tx, 'p', { driver: 'external', mode: 'observe' }, start));
    const id = await addNodeWithBeatAt(0);
    await db.query(`update nodes set would_have = $2 where node_id = $1`, [
      id,
      { rule: 'liveness', at: at(stale + 1) },
    ]);
    expect(await findSilentAt(1000, [id])).toEqual([]);
    await storeHeartbeats(db, [id], heartbeat, at(1000));
    expect(await findSilentAt(1000 + stale + 1, [id])).toEqual([id]);
  });

  test('does not count for a degraded node that answers its probe', async () => {
    const id = await addNodeWithBeatAt(0, { status: 'degraded' });
    await db.query(
      `insert into probes (node_instance_id, tried_at, ok_at) select node_instance_id, $2, $2 from nodes where node_id = $1`,
      [id, at(40)],
    );
    expect(await findSilentAt(40 + stale, [id])).toEqual([]);
    expect(await findSilentAt(40 + stale + 1, [id])).toEqual([id]);
  });

  test('is counted for nodes that another replica has locked', async () => {
    const ids = [await addNodeWithBeatAt(0), await addNodeWithBeatAt(0), await addNodeWithBeatAt(0)];
    await db.transaction(async (tx) => {
      expect(await lockSilentNodes(tx, ids, at(stale + 1), 2, [])).toHaveLength(2);
      expect(await findSilentAt(stale + 1, ids)).toHaveLength(1);
      expect(await countSilentNodes(db, ids, at(stale + 1))).toEqual([{ pool: 'p', zone: null, count: 3 }]);
    });
  });
});

test('the tightest heartbeat is the shortest in any generation of a pool that is not deleted', async () => {
  const declare = (name: string, document: object, seconds: number) =>
    db.transaction((tx) => declarePool(tx, name, { driver: 'external', ...document }, at(seconds)));
  expect(await readTightestHeartbeat(db)).toEqual({ interval_seconds: 10, stale_after_seconds: 30 });
  await declare('quick', { heartbeat: { interval_seconds: 1 } }, 1);
  expect(await readTightestHeartbeat(db)).toEqual({ interval_seconds: 1, stale_after_seconds: 30 });
  await declare('tight', { heartbeat: { interval_seconds: 5, stale_after_seconds: 6 } }, 2);
  await declare('tight', {}, 3);
  expect(await readTightestHeartbeat(db)).toEqual({ interval_seconds: 1, stale_after_seconds: 6 });
  await db.query(`update pools set deleted_at = $1 where name in ('quick', 'tight')`, [at(4)]);
  expect(await readTightestHeartbeat(db)).toEqual({ interval_seconds: 10, stale_after_seconds: 30 });
});
