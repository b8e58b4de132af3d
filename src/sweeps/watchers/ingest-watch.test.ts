/**
 * A replica may judge only while it has recently verified, by the database's clock, that it
 * receives and stores heartbeats.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { ReplicaId } from '../../base/ids.ts';
import { defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import { databaseClock } from '../../store/pg/database-clock.ts';
import { readNewestGaps } from '../../store/supervision/ingest-gaps.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { heldAfterFailoverSeconds, openIngestWatch } from './ingest-watch.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.markStored(fixture.start);
});
afterEach(() => fixture.close());

/** `flushed` returns the time up to which this replica has stored heartbeats; by default, now. */
function openWatch(flushed: () => Date = () => fixture.at((fixture.clock.nowMs() - fixture.start.getTime()) / 1000)) {
  return openIngestWatch({
    db: fixture.db,
    executor: { replica_id: 'rep_test' as ReplicaId, epoch: '1' },
    clock: fixture.clock,
    flushedThrough: flushed,
  });
}

test('is steady for a second and a half after a check, and not before the first', async () => {
  const ingest = await openWatch();
  expect(ingest.isSteady()).toBe(false);
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
  await fixture.clock.advance(1_400);
  expect(ingest.isSteady()).toBe(true);
  await fixture.clock.advance(200);
  expect(ingest.isSteady()).toBe(false);
});

test('is not steady for a while after a failover to an older database', async () => {
  const ingest = await openWatch();
  ingest.hold();
  for (let seconds = 0; seconds < heldAfterFailoverSeconds; seconds++) {
    await ingest.check();
    expect(ingest.isSteady(), `after ${seconds} s`).toBe(false);
    await fixture.clock.advance(1_000);
  }
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
});

test('reads the fleet size before the first check, so that no agent gets the interval of an empty fleet', async () => {
  await fixture.declarePool('many');
  await fixture.addNodes({ pool: 'many', count: 3 });
  const ingest = await openWatch();
  expect(ingest.heartbeatLoad().nodes).toBe(3);
  expect(ingest.isSteady(), 'reading the fleet size is not a check').toBe(false);
});

test('records one gap if the time between two checks exceeds the shortest interval of any pool', async () => {
  await fixture.declarePool('quick', { heartbeat: { interval_seconds: 2 } });
  const ingest = await openWatch();
  await ingest.check();
  await fixture.clock.advance(1_900);
  expect(await ingest.check()).toEqual({ gap: false });
  await fixture.clock.advance(5_000);
  expect(await ingest.check()).toEqual({ gap: true });
  expect(await ingest.check()).toEqual({ gap: false });
  expect(await readNewestGaps(fixture.db, 10)).toMatchObject([
    { started_at: fixture.at(1.9), ended_at: fixture.at(6.9) },
  ]);
});

test('records even a short gap at startup, unless a replica received heartbeats a moment ago', async () => {
  await fixture.declarePool('patient', { heartbeat: { interval_seconds: 10 } });
  for (const [started, ended] of [
    [0, 4],
    [4, 7],
  ] as const) {
    await fixture.clock.advance((ended - started) * 1000);
    expect(await (await openWatch()).check()).toEqual({ gap: true });
    expect((await readNewestGaps(fixture.db, 10))[0]).toMatchObject({
      started_at: fixture.at(started),
      ended_at: fixture.at(ended),
    });
  }
  await fixture.clock.advance(1_000);
  expect(await (await openWatch()).check(), 'a replica received heartbeats a second ago').toEqual({ gap: false });
});

test('is not steady while heartbeats cannot be stored, until the self-fault limit', async () => {
  const ingest = await openWatch(() => fixture.start);
  await ingest.check();
  await fixture.clock.advance(60_000);
  await ingest.check();
  expect(ingest.isSteady()).toBe(false);
  await fixture.clock.advance(defaultBrakeSettings.self_fault_seconds * 1000);
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
  expect(await readNewestGaps(fixture.db, 10), 'a gap is recorded only when it is over').toEqual([]);
});

test('does not mistake a slow commit for a clock jump', async () => {
  // Commits of this table wait, like those that wait for a missing synchronous standby.
  await fixture.db.query(`
    create function wait_at_commit() returns trigger language plpgsql as
    $$ begin perform pg_sleep(3); return null; end $$`);
  await fixture.db.query(`
    create constraint trigger wait_at_commit after update on replicas
    deferrable initially deferred for each row execute function wait_at_commit()`);
  const jumps: number[] = [];
  const clock = await databaseClock(fixture.db);
  const ingest = await openIngestWatch({
    db: fixture.db,
    executor: { replica_id: 'rep_test' as ReplicaId, epoch: '1' },
    clock,
    flushedThrough: () => new Date(clock.nowMs()),
    onClockJump: (seconds) => jumps.push(seconds),
  });
  await ingest.check();
  expect(jumps).toEqual([]);
});
