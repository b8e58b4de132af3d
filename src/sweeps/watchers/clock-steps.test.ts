/**
 * Tests that a replica follows a jump of the database's clock without a verdict: the skipped time
 * is a gap, and deadlines have moved by it before any rule reads the new clock.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { now, secondsBetween, secondsLater } from '../../base/clock.ts';
import type { ReplicaId } from '../../base/ids.ts';
import { leaseSeconds } from '../../store/operations/replicas.ts';
import { databaseClock } from '../../store/pg/database-clock.ts';
import { readNewestGaps } from '../../store/supervision/ingest-gaps.ts';
import { placeNodes, readPlacedRows } from '../../store/testing/placed-nodes.ts';
import { type SteppedClock, steppedClock } from '../../store/testing/stepped-clock.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { openIngestWatch } from './ingest-watch.ts';

const deadlineSeconds = 60;

let fixture: RuleFixture;
let database: SteppedClock;
let jumps: number[];
beforeEach(async () => {
  const created = await testDatabase();
  database = await steppedClock(created.url, { is_stopped: true });
  fixture = ruleFixture(created);
  jumps = [];
  await fixture.declarePool('fleet');
  const at = now(await databaseClock(fixture.db, fixture.clock));
  await placeNodes(fixture.db, {
    pool: 'fleet',
    count: 1,
    status: 'provisioning',
    since: at,
    deadline_at: secondsLater(at, deadlineSeconds),
  });
  await fixture.markStored(at);
});
afterEach(async () => {
  await database.close();
  await fixture.close();
});

const readDeadline = async () => {
  const [node] = await readPlacedRows(fixture.db);
  if (!node?.deadline_at) throw new Error('the node has no deadline');
  return node.deadline_at;
};

/** Opens the watch of a replica. `onResync` runs just before the replica reads the new clock. */
async function openWatch({ id = 'rep_test', onResync = async () => {} } = {}) {
  const clock = await databaseClock(fixture.db, fixture.clock);
  const ingest = await openIngestWatch({
    db: fixture.db,
    executor: { replica_id: id as ReplicaId, epoch: '1' },
    clock: {
      ...clock,
      async resync() {
        await onResync();
        await clock.resync();
      },
    },
    flushedThrough: () => now(clock),
    onClockJump: (seconds) => jumps.push(Math.round(seconds)),
  });
  await ingest.check();
  return ingest;
}

test.for([3600, 5])('moves deadlines before it follows a clock that jumped forwards by %i s', async (seconds) => {
  const before = await readDeadline();
  let movedSeconds = 0;
  let wasSteady: boolean | undefined;
  const ingest = await openWatch({
    async onResync() {
      movedSeconds = secondsBetween(before, await readDeadline());
      wasSteady = ingest.isSteady();
    },
  });
  expect(ingest.isSteady()).toBe(true);
  await database.step(seconds);
  expect(await ingest.check()).toEqual({ gap: true });
  expect(jumps).toEqual([seconds]);
  expect(Math.round(movedSeconds)).toBe(seconds);
  expect(wasSteady, 'before the new clock is read').toBe(false);
  expect(ingest.isSteady(), 'until the next check').toBe(false);

  expect(await ingest.check()).toEqual({ gap: false });
  expect(ingest.isSteady()).toBe(true);
  expect(await readNewestGaps(fixture.db, 10)).toMatchObject([{ nodes_moved: 1 }]);
});

test('records no gap and moves no deadline if the clock jumped backwards', async () => {
  const before = await readDeadline();
  const ingest = await openWatch();
  await database.step(-3600);
  expect(await ingest.check()).toEqual({ gap: false });
  expect(jumps).toEqual([-3600]);
  expect(ingest.isSteady(), 'until the next check').toBe(false);
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
  expect(await readDeadline()).toEqual(before);
  expect(await readNewestGaps(fixture.db, 10)).toEqual([]);
});

test('two replicas that notice the same jump record one gap', async () => {
  await fixture.markStored(now(await databaseClock(fixture.db, fixture.clock)), 'rep_other');
  const one = await openWatch();
  const other = await openWatch({ id: 'rep_other' });
  const before = await readDeadline();
  await database.step(3600);
  await Promise.all([one.check(), other.check()]);
  expect(await readNewestGaps(fixture.db, 10)).toHaveLength(1);
  expect(Math.round(secondsBetween(before, await readDeadline()))).toBe(3600);
});

test('is not settled for the time of a lease after a jump', async () => {
  const ingest = await openWatch();
  expect(ingest.isClockSettled()).toBe(true);
  await database.step(3600);
  await ingest.check();
  expect(ingest.isClockSettled()).toBe(false);
  await fixture.clock.advance(1000 * leaseSeconds - 1);
  expect(ingest.isClockSettled()).toBe(false);
  await fixture.clock.advance(2);
  expect(ingest.isClockSettled()).toBe(true);
});
