/** Tests the estimate of how many nodes send heartbeats to how many replicas. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { secondsLater } from '../../../base/clock.ts';
import type { ReplicaId } from '../../../base/ids.ts';
import { registerReplica } from '../../operations/replicas.ts';
import { type Fleet, testFleet } from '../../testing/fleet.ts';
import { countHeartbeatSources, countReplicas } from './fleet-load.ts';

let store: TestStore;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
});

afterAll(() => store.close());

const addReplica = (replica_id: string, lease_seconds: number) =>
  registerReplica(store.db, {
    replica_id: replica_id as ReplicaId,
    host: 'here',
    pid: 1,
    address: '',
    version: '1',
    started_at: fleet.now(),
    lease_until: secondsLater(fleet.now(), lease_seconds),
  });

const readLoad = async (now: Date) => ({
  nodes: await countHeartbeatSources(store.db),
  replicas: await countReplicas(store.db, now),
});

test('counts nodes that still send heartbeats, and replicas with a valid lease', async () => {
  expect(await readLoad(fleet.now())).toEqual({ nodes: 0, replicas: 1 });
  for (let i = 0; i < 3; i++) await fleet.node('ready');
  const ended = await fleet.node('ready');
  await store.db.query('update heartbeats set over = true where node_instance_id = $1', [ended.node_instance_id]);
  await addReplica('rep_a', 10);
  await addReplica('rep_b', 10);
  await addReplica('rep_expired', -1);
  expect(await readLoad(fleet.now())).toEqual({ nodes: 3, replicas: 2 });
});

test('estimates the nodes of a large fleet from a sample of pages', async () => {
  const { db } = store;
  await db.transaction(async (tx) => {
    await tx.query(
      `insert into instances (node_instance_id, node_id, attempt, created_at)
       select 'inst_' || n, (select node_id from nodes limit 1), n + 10, now() from generate_series(1, 20000) as n`,
    );
    await tx.query(
      `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds)
       select 'inst_' || n, now(), 10, 30 from generate_series(1, 20000) as n`,
    );
  });
  const exact = await countHeartbeatSources(db, 1_000_000);
  expect(exact).toBe(20_003);
  // Pages are sampled randomly; with 150 of some 270 pages the estimate is far inside this bound.
  expect(Math.abs((await countHeartbeatSources(db, 150)) / exact - 1)).toBeLessThan(0.5);
});
