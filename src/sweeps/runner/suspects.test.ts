/** Heartbeats are read rarely, and still no node crosses its threshold unseen. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { storeBeats } from '../../store/heartbeats/store-heartbeats.ts';
import type { Database } from '../../store/pg/database.ts';
import { patienceOf } from '../../store/supervision/silent-nodes.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { createSuspects } from './suspects.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('p');
});
afterEach(() => stage.close());

/** The database, with every statement recorded and, on request, failing. */
function watched(): { db: Database; readings(which: (values: readonly unknown[]) => boolean): number; fail(): void } {
  const statements: (readonly unknown[])[] = [];
  let failing = false;
  return {
    db: {
      ...stage.db,
      query: (text, values) => {
        statements.push(values ?? []);
        if (!failing) return stage.db.query(text, values);
        failing = false;
        return Promise.reject(new Error('the store is away'));
      },
    },
    readings: (which) => statements.filter(which).length,
    fail: () => {
      failing = true;
    },
  };
}

test('finds a node before it crosses the threshold, whenever it fell silent', async () => {
  const beats = Array.from({ length: 12 }, (_, i) => i * 0.5);
  const ids = [];
  for (const seconds of beats)
    ids.push(...(await stage.nodes({ pool: 'p', count: 1, last_seen_at: stage.at(seconds) })));
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  for (let seconds = 0; seconds < 2 * staleSeconds; seconds += 0.5) {
    const found = (await suspects.at(stage.at(seconds)))
      .filter(({ due_ms }) => due_ms <= stage.at(seconds).getTime())
      .map(({ node_id }) => node_id);
    const silent = ids.filter((_, i) => (beats[i] ?? 0) + staleSeconds <= seconds);
    expect(
      silent.filter((id) => !found.includes(id)),
      `at ${seconds} s`,
    ).toEqual([]);
  }
  const tight = readings((values) => values[2] === 0);
  expect(tight).toBe((2 * staleSeconds) / suspects.everySeconds());
});

test('reads nodes with longer stale times less often, and still finds them in time', async () => {
  const stales = [staleSeconds, 45, 64, 100, 375, 512, 1_500, 4_000];
  const ids: NodeId[] = [];
  for (const [place, stale_seconds] of stales.entries()) {
    const [id] = await stage.nodes({ pool: 'p', count: 1, last_seen_at: stage.at(0) });
    if (!id) throw new Error('no node was made');
    ids.push(id);
    const [row] = await stage.rows([id]);
    const beat = {
      node_instance_id: row?.node_instance_id as NodeInstanceId,
      has_assigned_interval: false,
      reported: null,
    };
    const beats = [
      { ...beat, received_ms: stage.at(place + 1).getTime(), interval_seconds: stale_seconds / 3, stale_seconds },
    ];
    await stage.db.transaction((tx) => storeBeats(tx, beats));
  }
  const stored = await stage.db.query('select patience from heartbeats order by stale_seconds');
  expect(stored).toEqual(stales.map((each) => ({ patience: patienceOf(each) })));
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  const foundFirst = new Map<NodeId, number>();
  const longest = Math.max(...stales) + stales.length + 1;
  const step = suspects.everySeconds() / 2;
  for (let seconds = 0; seconds <= longest; seconds += step)
    for (const { node_id } of await suspects.at(stage.at(seconds)))
      if (!foundFirst.has(node_id)) foundFirst.set(node_id, seconds);
  for (const [place, stale_seconds] of stales.entries()) {
    const first = foundFirst.get(ids[place] as NodeId) ?? Number.POSITIVE_INFINITY;
    expect(first, `allowed ${stale_seconds} s, found before`).toBeLessThan(place + 1 + stale_seconds - step);
    expect(first, `allowed ${stale_seconds} s, not from the start`).toBeGreaterThan(stale_seconds / 4);
  }
  const ofMinutes = readings((values) => values[2] === patienceOf(375));
  expect(ofMinutes).toBeGreaterThan(longest / 256);
  expect(ofMinutes).toBeLessThan((4 * longest) / 256);
});

test('keeps a node in its class despite the jitter of its interval', async () => {
  const [id] = await stage.nodes({ pool: 'p', count: 1, last_seen_at: stage.at(0) });
  const [row] = await stage.rows(id ? [id] : []);
  const beat = {
    node_instance_id: row?.node_instance_id as NodeInstanceId,
    has_assigned_interval: false,
    reported: null,
  };
  const classes = [];
  for (const [place, stale_seconds] of [30, 33, 31, 32, 30, 130, 120, 40].entries()) {
    const received_ms = stage.at(place + 1).getTime();
    await stage.db.transaction((tx) =>
      storeBeats(tx, [{ ...beat, received_ms, interval_seconds: stale_seconds / 3, stale_seconds }]),
    );
    classes.push(...(await stage.db.query<{ patience: number }>('select patience from heartbeats')));
  }
  expect(classes.map(({ patience }) => patience)).toEqual([4, 4, 4, 4, 4, 7, 6, 5]);
});

test('finds a node by a shorter interval once it is assigned', async () => {
  const [id] = await stage.nodes({ pool: 'p', count: 1, last_seen_at: stage.at(0) });
  const [row] = await stage.rows(id ? [id] : []);
  const hear = (seconds: number, interval_seconds: number) => {
    const beat = {
      node_instance_id: row?.node_instance_id as NodeInstanceId,
      has_assigned_interval: true,
      reported: null,
    };
    const received_ms = stage.at(seconds).getTime();
    const stale_seconds = 3 * interval_seconds;
    return stage.db.transaction((tx) => storeBeats(tx, [{ ...beat, received_ms, interval_seconds, stale_seconds }]));
  };
  const suspects = createSuspects(stage.db, stage.services.ingest);
  await hear(1, 125);
  expect(await suspects.at(stage.at(2))).toEqual([]);
  await hear(126, 10);
  expect(await suspects.at(stage.at(127))).toEqual([]);
  await hear(136, 10);
  const due_ms = stage.at(136 + staleSeconds).getTime();
  expect(await suspects.at(stage.at(136 + staleSeconds - 1))).toEqual([{ node_id: id, due_ms }]);
});

test('shares one reading among concurrent callers', async () => {
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  await Promise.all([suspects.at(stage.at(0)), suspects.at(stage.at(0)), suspects.at(stage.at(0.1))]);
  expect(readings((values) => values[2] === 0)).toBe(1);
});

test('rejects on a failed reading, and reads again for the next caller', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 1 });
  const { db, fail } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  fail();
  await expect(suspects.at(stage.at(staleSeconds))).rejects.toThrow('the store is away');
  expect((await suspects.at(stage.at(staleSeconds))).map(({ node_id }) => node_id)).toEqual(ids);
});

test('reads again after the clock was set back', async () => {
  const { db, readings } = watched();
  const suspects = createSuspects(db, stage.services.ingest);
  await suspects.at(stage.at(3600));
  await suspects.at(stage.at(0));
  expect(readings((values) => values[2] === 0)).toBe(2);
});
