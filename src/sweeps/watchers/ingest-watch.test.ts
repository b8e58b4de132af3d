/**
 * A replica may judge only while it has recently verified, by the database's clock, that it
 * receives and stores heartbeats.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { ReplicaId } from '../../base/ids.ts';
import { defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import { newestGaps } from '../../store/supervision/ingest-gaps.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { openIngestWatch } from './ingest-watch.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.hear(stage.start);
});
afterEach(() => stage.close());

/** The stage's clock moves only when advanced; `flushed` is how far this replica has stored. */
function watch(flushed: () => Date = () => stage.at((stage.clock.nowMs() - stage.start.getTime()) / 1000)) {
  return openIngestWatch({
    db: stage.db,
    executor: { replica_id: 'rep_test' as ReplicaId, epoch: '1' },
    clock: stage.clock,
    flushedThrough: flushed,
  });
}

test('is steady for a short time after a check, and not before', async () => {
  const ingest = await watch();
  expect(ingest.isSteady()).toBe(false);
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
  await stage.clock.advance(1_400);
  expect(ingest.isSteady()).toBe(true);
  await stage.clock.advance(200);
  expect(ingest.isSteady()).toBe(false);
});

test('knows the fleet size from the start, so that no agent gets the interval of an empty fleet', async () => {
  await stage.pool('many');
  await stage.nodes({ pool: 'many', count: 3 });
  const ingest = await watch();
  expect(ingest.listened().nodes).toBe(3);
  expect(ingest.isSteady(), 'to count is not to hear').toBe(false);
});

test('finds the time it slept through, once, by the shortest interval of any pool', async () => {
  await stage.pool('quick', { heartbeat: { interval_seconds: 2 } });
  const ingest = await watch();
  await ingest.check();
  await stage.clock.advance(1_900);
  expect(await ingest.check()).toEqual({ gap: false });
  await stage.clock.advance(5_000);
  expect(await ingest.check()).toEqual({ gap: true });
  expect(await ingest.check()).toEqual({ gap: false });
  expect(await newestGaps(stage.db, 10)).toMatchObject([{ started_at: stage.at(1.9), ended_at: stage.at(6.9) }]);
});

test('counts a short absence at startup, unless another replica received heartbeats', async () => {
  await stage.pool('patient', { heartbeat: { interval_seconds: 10 } });
  for (const [started, ended] of [
    [0, 4],
    [4, 7],
  ] as const) {
    await stage.clock.advance((ended - started) * 1000);
    expect(await (await watch()).check()).toEqual({ gap: true });
    expect((await newestGaps(stage.db, 10))[0]).toMatchObject({
      started_at: stage.at(started),
      ended_at: stage.at(ended),
    });
  }
  await stage.clock.advance(1_000);
  expect(await (await watch()).check(), 'somebody heard a moment ago').toEqual({ gap: false });
});

test('does not judge while it cannot store heartbeats, but not forever', async () => {
  const ingest = await watch(() => stage.start);
  await ingest.check();
  await stage.clock.advance(60_000);
  await ingest.check();
  expect(ingest.isSteady()).toBe(false);
  await stage.clock.advance(defaultBrakeSettings.self_fault_seconds * 1000);
  await ingest.check();
  expect(ingest.isSteady()).toBe(true);
  expect(await newestGaps(stage.db, 10), 'a gap that is not over is not on record').toEqual([]);
});

test('follows a step of the database clock, and checks again before it judges', async () => {
  let followed = 0;
  const jumps: number[] = [];
  const ingest = await openIngestWatch({
    db: stage.db,
    executor: { replica_id: 'rep_test' as ReplicaId, epoch: '1' },
    // The stage's clock is far behind the database's own.
    clock: {
      ...stage.clock,
      resync: async () => {
        followed++;
      },
    },
    flushedThrough: () => stage.start,
    onClockJump: (seconds) => jumps.push(seconds),
  });
  expect(await ingest.check()).toEqual({ gap: false });
  expect(followed).toBe(1);
  expect(jumps).toHaveLength(1);
  expect(ingest.isSteady()).toBe(false);
});
