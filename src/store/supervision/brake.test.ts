/** Tests when holds of the brake open and end, and which launches they pause. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import { holdingRules, pausingRules } from '../../lifecycle/model/rules.ts';
import type { Database } from '../pg/database.ts';
import {
  countRecentVerdicts,
  deleteOldTally,
  endHolds,
  findLaunchHold,
  type HoldRow,
  openHold,
  readOpenHolds,
  resumeHolds,
  tallyVerdicts,
} from './brake.ts';

let store: TestStore;
let db: Database;
beforeEach(async () => {
  store = await testStore();
  db = store.db;
});
afterEach(async () => {
  await store.close();
});

const start = moment(Date.UTC(2030, 0, 1));
const at = (seconds: number) => secondsLater(start, seconds);
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

let opened = 0;
const open = (columns: Partial<HoldRow> = {}) =>
  db.transaction((tx) =>
    openHold(tx, {
      hold_id: `hold_${++opened}`,
      kind: 'mass-failure',
      rule: 'liveness',
      scope: 'pool',
      name: 'p',
      reason: '6 of 10',
      negative: 6,
      population: 10,
      since: start,
      held_until: at(3600),
      ...columns,
    }),
  );

const end = (now: Date) =>
  db.transaction((tx) => endHolds(tx, holdingRules, { opened_before: at(1), resumed_before: at(1) }, now));

const countFacts = async (kind: string) => (await db.query('select 1 from evidence where kind = $1', [kind])).length;

test('opens and records only one hold if several replicas detect the same failure', async () => {
  const holds = await Promise.all([open(), open(), open(), open()]);
  expect(new Set(holds.map((hold) => hold.hold_id)).size).toBe(1);
  expect(await countFacts('brake.held')).toBe(1);
});

test('opens another hold for another rule, scope or name', async () => {
  await open();
  await open({ rule: 'rescue-over' });
  await open({ scope: 'zone' });
  await open({ name: 'q' });
  expect(await readOpenHolds(db)).toHaveLength(4);
  expect(await readOpenHolds(db, 'rescue-over')).toHaveLength(1);
});

test('resumes the hold with the given id, or else all that are not resumed yet', async () => {
  const one = await open();
  await open({ name: 'q' });
  const resume = (hold_id?: string) =>
    db.transaction((tx) => resumeHolds(tx, { hold_id, reason: 'it is real', actor }, at(10)));
  expect((await resume(one.hold_id)).map((hold) => hold.name)).toEqual(['p']);
  expect((await resume()).map((hold) => hold.name)).toEqual(['q']);
  expect(await resume()).toEqual([]);
  expect(await countFacts('brake.resumed')).toBe(2);
});

test('pauses launches in a pool or zone until the hold expires or is resumed', async () => {
  const findPause = async (name: string, zone: string | null, seconds: number) =>
    (await findLaunchHold(db, { name, zone }, pausingRules, at(seconds)))?.name;
  await open({ rule: 'liveness' });
  expect(await findPause('p', null, 1), 'a hold on verdicts pauses no launch').toBeUndefined();
  await open({ rule: 'provision-deadline' });
  await open({ rule: 'start-deadline', scope: 'zone', name: 'eu-1' });
  expect(await findPause('p', null, 1)).toBe('p');
  expect(await findPause('q', 'eu-1', 1)).toBe('eu-1');
  expect(await findPause('q', 'us-1', 1)).toBeUndefined();
  expect(await findPause('p', null, 3600)).toBeUndefined();
  await db.transaction((tx) => resumeHolds(tx, { reason: 'repaired', actor }, at(2)));
  expect(await findPause('p', null, 3)).toBeUndefined();
});

test('ends a hold on launches when it expires or a machine comes up', async () => {
  await open({ rule: 'provision-deadline' });
  await open({ rule: 'provision-deadline', scope: 'zone', name: 'eu-1' });
  expect(await end(at(60))).toEqual([]);
  await db.query(
    `insert into boot_samples (node_instance_id, node_id, phase, at, pool, pool_generation, zone, started_at, seconds, outcome)
     values ('inst_1', 'node_1', 'provision', $1, 'p', 1, 'us-1', $1, 10, 'completed')`,
    [at(30)],
  );
  expect((await end(at(60))).map((hold) => hold.name)).toEqual(['p']);
  expect((await end(at(3600))).map((hold) => hold.name)).toEqual(['eu-1']);
  expect(await countFacts('brake.ended')).toBe(2);
});

test('tallies verdicts by pool and zone, and deletes old tallies', async () => {
  await db.transaction(async (tx) => {
    await tallyVerdicts(tx, 'liveness', [{ pool: 'p', zone: 'eu-1', count: 2 }], at(0));
    await tallyVerdicts(tx, 'liveness', [{ pool: 'p', zone: 'eu-1', count: 3 }], at(30));
    await tallyVerdicts(tx, 'rescue-over', [{ pool: 'p', zone: null, count: 9 }], at(30));
    await tallyVerdicts(tx, 'liveness', [], at(30));
  });
  expect(await countRecentVerdicts(db, 'liveness', at(-1))).toEqual([{ pool: 'p', zone: 'eu-1', count: 5 }]);
  expect(await countRecentVerdicts(db, 'liveness', at(0))).toEqual([{ pool: 'p', zone: 'eu-1', count: 3 }]);
  await deleteOldTally(db, at(3631));
  expect(await countRecentVerdicts(db, 'liveness', at(-1))).toEqual([]);
});
