/** Heartbeats are read rarely, and every silent node is still found before its threshold. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { storeBeats } from '../../store/heartbeats/store-heartbeats.ts';
import type { Database } from '../../store/pg/database.ts';
import { patienceOf } from '../../store/supervision/silent-nodes.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { createSuspects } from './suspects.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
});
afterEach(() => fixture.close());

/** Wraps the database to record the values of each statement, and to fail one on request. */
function recordingDatabase(): {
  db: Database;
  countReads(which: (values: readonly unknown[]) => boolean): number;
  failNext(): void;
} {
  const statements: (readonly unknown[])[] = [];
  let failing = false;
  return {
    db: {
      ...fixture.db,
      query: (text, values) => {
        statements.push(values ?? []);
        if (!failing) return fixture.db.query(text, values);
        failing = false;
        return Promise.reject(new Error('the store is away'));
      },
    },
    countReads: (which) => statements.filter(which).length,
    failNext: () => {
      failing = true;
    },
  };
}

test('finds every silent node by its threshold, at any time of its last heartbeat', async () => {
  const beats = Array.from({ length: 12 }, (_, i) => i * 0.5);
  const ids = [];
  for (const seconds of beats)
    ids.push(...(await fixture.addNodes({ pool: 'p', count: 1, last_seen_at: fixture.at(seconds) })));
  const { db, countReads } = recordingDatabase();
  const suspects = createSuspects(db, fixture.services.ingest);
  for (let seconds = 0; seconds < 2 * staleSeconds; seconds += 0.5) {
    const foundIds = (await suspects.list(fixture.at(seconds)))
      .filter(({ due_ms }) => due_ms <= fixture.at(seconds).getTime())
      .map(({ node_id }) => node_id);
    const silent = ids.filter((_, i) => (beats[i] ?? 0) + staleSeconds <= seconds);
    expect(
      silent.filter((id) => !foundIds.includes(id)),
      `at ${seconds} s`,
    ).toEqual([]);
  }
  const readsOfFirstClass = countReads((values) => values[2] === 0);
  expect(readsOfFirstClass).toBe((2 * staleSeconds) / suspects.everySeconds());
});

test('reads nodes with longer stale times less often, and still finds them in time', async () => {
  const stales = [staleSeconds, 45, 64, 100, 375, 512, 1_500, 4_000];
  const ids: NodeId[] = [];
  for (const [index, stale_seconds] of stales.entries()) {
    const [id] = await fixture.addNodes({ pool: 'p', count: 1, last_seen_at: fixture.at(0) });
    if (!id) throw new Error('the node was not added');
    ids.push(id);
    const [row] = await fixture.readNodes([id]);
    const beat = {
      node_instance_id: row?.node_instance_id as NodeInstanceId,
      has_assigned_interval: false,
      reported: null,
    };
    const beats = [
      { ...beat, received_ms: fixture.at(index + 1).getTime(), interval_seconds: stale_seconds / 3, stale_seconds },
    ];
    await fixture.db.transaction((tx) => storeBeats(tx, beats));
  }
  const stored = await fixture.db.query('select patience from heartbeats order by stale_seconds');
  expect(stored).toEqual(stales.map((each) => ({ patience: patienceOf(each) })));
  const { db, countReads } = recordingDatabase();
  const suspects = createSuspects(db, fixture.services.ingest);
  const firstFoundAt = new Map<NodeId, number>();
  const longest = Math.max(...stales) + stales.length + 1;
  const step = suspects.everySeconds() / 2;
  for (let seconds = 0; seconds <= longest; seconds += step)
    for (const { node_id } of await suspects.list(fixture.at(seconds)))
      if (!firstFoundAt.has(node_id)) firstFoundAt.set(node_id, seconds);
  for (const [index, stale_seconds] of stales.entries()) {
    const first = firstFoundAt.get(ids[index] as NodeId) ?? Number.POSITIVE_INFINITY;
    expect(first, `stale after ${stale_seconds} s, found before that`).toBeLessThan(index + 1 + stale_seconds - step);
    expect(first, `stale after ${stale_seconds} s, but not listed from the start`).toBeGreaterThan(stale_seconds / 4);
  }
  const readsOfClass = countReads((values) => values[2] === patienceOf(375));
  expect(readsOfClass).toBeGreaterThan(longest / 256);
  expect(readsOfClass).toBeLessThan((4 * longest) / 256);
});

test('keeps a node in its class if jitter changes its stale time slightly', async () => {
  const [id] = await fixture.addNodes({ pool: 'p', count: 1, last_seen_at: fixture.at(0) });
  const [row] = await fixture.readNodes(id ? [id] : []);
  const beat = {
    node_instance_id: row?.node_instance_id as NodeInstanceId,
    has_assigned_interval: false,
    reported: null,
  };
  const classes = [];
  for (const [index, stale_seconds] of [30, 33, 31, 32, 30, 130, 120, 40].entries()) {
    const received_ms = fixture.at(index + 1).getTime();
    await fixture.db.transaction((tx) =>
      storeBeats(tx, [{ ...beat, received_ms, interval_seconds: stale_seconds / 3, stale_seconds }]),
    );
    classes.push(...(await fixture.db.query<{ patience: number }>('select patience from heartbeats')));
  }
  expect(classes.map(({ patience }) => patience)).toEqual([4, 4, 4, 4, 4, 7, 6, 5]);
});

test('finds a node by its shorter interval once that is assigned', async () => {
  const [id] = await fixture.addNodes({ pool: 'p', count: 1, last_seen_at: fixture.at(0) });
  const [row] = await fixture.readNodes(id ? [id] : []);
  const storeBeat = (seconds: number, interval_seconds: number) => {
    const beat = {
      node_instance_id: row?.node_instance_id as NodeInstanceId,
      has_assigned_interval: true,
      reported: null,
    };
    const received_ms = fixture.at(seconds).getTime();
    const stale_seconds = 3 * interval_seconds;
    return fixture.db.transaction((tx) => storeBeats(tx, [{ ...beat, received_ms, interval_seconds, stale_seconds }]));
  };
  const suspects = createSuspects(fixture.db, fixture.services.ingest);
  await storeBeat(1, 125);
  expect(await suspects.list(fixture.at(2))).toEqual([]);
  await storeBeat(126, 10);
  expect(await suspects.list(fixture.at(127))).toEqual([]);
  await storeBeat(136, 10);
  const due_ms = fixture.at(136 + staleSeconds).getTime();
  expect(await suspects.list(fixture.at(136 + staleSeconds - 1))).toEqual([{ node_id: id, due_ms }]);
});

test('reads once for concurrent callers', async () => {
  const { db, countReads } = recordingDatabase();
  const suspects = createSuspects(db, fixture.services.ingest);
  await Promise.all([suspects.list(fixture.at(0)), suspects.list(fixture.at(0)), suspects.list(fixture.at(0.1))]);
  expect(countReads((values) => values[2] === 0)).toBe(1);
});

test('rejects if the read fails, and reads again for the next caller', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 1 });
  const { db, failNext } = recordingDatabase();
  const suspects = createSuspects(db, fixture.services.ingest);
  failNext();
  await expect(suspects.list(fixture.at(staleSeconds))).rejects.toThrow('the store is away');
  expect((await suspects.list(fixture.at(staleSeconds))).map(({ node_id }) => node_id)).toEqual(ids);
});

test('reads again after the clock was set back', async () => {
  const { db, countReads } = recordingDatabase();
  const suspects = createSuspects(db, fixture.services.ingest);
  await suspects.list(fixture.at(3600));
  await suspects.list(fixture.at(0));
  expect(countReads((values) => values[2] === 0)).toBe(2);
});
