/** Tests how boot stages are stored and read. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { BootStage } from '../../contract/node.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { readBootStages, storeBootStages } from './boot-stages.ts';
import { reportPrerequisites } from './prerequisites.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

const bootedNode = async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  return { node_id, node_instance_id: node_instance_id as NodeInstanceId };
};

test('records a repeated boot stage once, unless its duration changed', async () => {
  const ids = { ...(await bootedNode()), correlation_id: null };
  const stages = [
    { name: 'boot', seconds: 1 },
    { name: 'pull', seconds: 2, parent: 'boot' },
  ];
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  await storeBootStages(
    db,
    ids,
    [
      { name: 'boot', seconds: 5 },
      { name: 'set-up', seconds: 1 },
    ],
    fleet.now(),
    fleet.environment,
  );
  expect(await readBootStages(db, ids.node_id, ids.node_instance_id, wholeFleet)).toEqual([
    { name: 'boot', seconds: 5 },
    { name: 'pull', seconds: 2, parent: 'boot' },
    { name: 'set-up', seconds: 1 },
  ]);
  const facts = await db.query(`select 1 from evidence where node_id = $1 and kind = 'boot.stage'`, [ids.node_id]);
  expect(facts.length).toBe(4);
});

test('replaces the start of a repeated stage together with its duration', async () => {
  const ids = { ...(await bootedNode()), correlation_id: null };
  const store = (stages: BootStage[]) => storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  const first = { name: 'boot', seconds: 9, started_at: '2026-11-17T10:00:00.000Z' };
  await store([first, { name: 'pull', seconds: 2, starts_seconds: 1 }]);
  const second = { name: 'boot', seconds: 5, started_at: '2026-11-17T10:20:00.000Z' };
  await store([second, { name: 'pull', seconds: 3, starts_seconds: 4 }]);
  expect(await readBootStages(db, ids.node_id, ids.node_instance_id, wholeFleet)).toEqual([
    second,
    { name: 'pull', seconds: 3, starts_seconds: 4 },
  ]);
});

test('records the facts of a boot under the allocation that the machine boots for', async () => {
  const node = await fleet.node('starting');
  const { allocation_id } = await fleet.allocation('provisioning', node, 'mine');
  const ids = { node_id: node.node_id, node_instance_id: node.node_instance_id as NodeInstanceId };
  const stages = [{ name: 'boot', seconds: 1 }];
  await storeBootStages(db, { ...ids, correlation_id: null }, stages, fleet.now(), fleet.environment);
  const checks = [{ name: 'disk', ok: true }];
  await reportPrerequisites(db, ids, checks, fleet.now(), fleet.environment);
  const facts = await db.query(
    `select kind, allocation_id
     from evidence
     where node_id = $1
       and kind in ('boot.stage', 'prerequisite.met')
     order by kind`,
    [node.node_id],
  );
  expect(facts).toEqual([
    { kind: 'boot.stage', allocation_id },
    { kind: 'prerequisite.met', allocation_id },
  ]);
});

test('keeps the last of two equal stages in one report', async () => {
  const ids = { ...(await bootedNode()), correlation_id: null };
  const stages = [
    { name: 'pull', seconds: 1 },
    { name: 'pull', seconds: 3 },
  ];
  await storeBootStages(db, ids, stages, fleet.now(), fleet.environment);
  expect(await readBootStages(db, ids.node_id, ids.node_instance_id, wholeFleet)).toEqual([
    { name: 'pull', seconds: 3 },
  ]);
});
