import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { createHeartbeatBuffer } from './heartbeat-buffer.ts';
import type { Beat } from './heartbeat-columns.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

const createInstance = async (): Promise<NodeInstanceId> =>
  (await fleet.node('starting')).node_instance_id as NodeInstanceId;

const beat = (node_instance_id: NodeInstanceId, second: number, reported: Beat['reported'] = null): Beat => ({
  node_instance_id,
  received_ms: fleet.clock.nowMs() + second * 1000,
  interval_seconds: 10,
  stale_seconds: 30,
  has_assigned_interval: true,
  reported,
});

interface StoredBeat {
  seconds: number;
  reported: Record<string, unknown> | null;
}

async function readStored(id: NodeInstanceId): Promise<StoredBeat | undefined> {
  const [row] = await db.query<{ last_seen_at: Date; reported: StoredBeat['reported'] }>(
    'select last_seen_at, reported from heartbeats where node_instance_id = $1',
    [id],
  );
  return row && { seconds: (row.last_seen_at.getTime() - fleet.clock.nowMs()) / 1000, reported: row.reported };
}

/** Creates a buffer on a database that counts flushes, and delays or fails them on request. */
function createCountedBuffer() {
  const storage = {
    flushes: 0,
    isFailing: false,
    errors: [] as unknown[],
    hold: undefined as Promise<void> | undefined,
  };
  const wrapped: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          ...tx,
          query: async (text, values) => {
            if (/update heartbeats/.test(text)) {
              storage.flushes++;
              await storage.hold;
              if (storage.isFailing) throw new Error('the store is away');
            }
            return tx.query(text, values);
          },
        }),
      ),
  };
  const buffer = createHeartbeatBuffer(wrapped, fleet.clock, (error) => storage.errors.push(error));
  return { storage, buffer };
}

test('stores only the newest heartbeat of every instance, in one flush', async () => {
  const { storage, buffer } = createCountedBuffer();
  const [a, b] = [await createInstance(), await createInstance()];
  for (let second = 1; second <= 50; second++) for (const id of [a, b]) buffer.add(beat(id, second));
  buffer.add(beat(a, 20));
  expect(storage.flushes).toBe(0);
  await buffer.flush();
  expect(storage.flushes).toBe(1);
  expect(await readStored(a)).toMatchObject({ seconds: 50 });
  expect(await readStored(b)).toMatchObject({ seconds: 50 });
  await buffer.flush();
  expect(storage.flushes).toBe(1);
});

test('flushes by itself 200 ms after the first heartbeat', async () => {
  const { storage, buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat(id, 1));
  await fleet.clock.advance(199);
  expect(storage.flushes).toBe(0);
  await fleet.clock.advance(1);
  await buffer.flush();
  expect(storage.flushes).toBe(1);
  expect(await readStored(id)).toBeDefined();
});

test('pads a new row, and drops the padding at its first update', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  const readPaddingBytes = async () => {
    const [row] = await db.query<{ bytes: number }>(
      'select coalesce(length(room), 0) as bytes from heartbeats where node_instance_id = $1',
      [id],
    );
    return row?.bytes;
  };
  buffer.add(beat(id, 1));
  await buffer.flush();
  expect(await readPaddingBytes()).toBeGreaterThan(0);
  buffer.add(beat(id, 2));
  await buffer.flush();
  expect(await readPaddingBytes()).toBe(0);
});

test('never overwrites a stored heartbeat with an older one', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat(id, 30, { health: 1 }));
  await buffer.flush();
  buffer.add(beat(id, 10, { health: 0 }));
  await buffer.flush();
  expect(await readStored(id)).toEqual({ seconds: 30, reported: { health: 1 } });
});

test('keeps the last report through plain heartbeats, before and after a flush', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat(id, 1, { health: 0.5 }));
  buffer.add(beat(id, 2));
  await buffer.flush();
  expect(await readStored(id)).toEqual({ seconds: 2, reported: { health: 0.5 } });
  buffer.add(beat(id, 3));
  await buffer.flush();
  expect(await readStored(id)).toEqual({ seconds: 3, reported: { health: 0.5 } });
});

test('keeps the heartbeats of a failed flush, and prefers later ones', async () => {
  const { storage, buffer } = createCountedBuffer();
  const [a, b] = [await createInstance(), await createInstance()];
  buffer.add(beat(a, 1, { health: 1 }));
  buffer.add(beat(b, 1));
  storage.isFailing = true;
  const failing = buffer.flush();
  buffer.add(beat(a, 2));
  await failing;
  expect(storage.errors.length).toBe(1);
  expect(await readStored(a)).toBeUndefined();
  storage.isFailing = false;
  await buffer.flush();
  expect(await readStored(a)).toEqual({ seconds: 2, reported: { health: 1 } });
  expect(await readStored(b)).toMatchObject({ seconds: 1 });
});

test('does not count a running flush in flushedThrough', async () => {
  const { storage, buffer } = createCountedBuffer();
  const id = await createInstance();
  const start = fleet.clock.nowMs();
  buffer.add(beat(id, 0));
  await fleet.clock.advance(50);
  expect(buffer.flushedThrough().getTime()).toBe(start);
  let release = () => {};
  storage.hold = new Promise((resolve) => {
    release = resolve;
  });
  const flushing = buffer.flush();
  await fleet.clock.advance(10);
  const duringFlush = buffer.flushedThrough().getTime();
  release();
  await flushing;
  expect(duringFlush).toBe(start);
  expect(buffer.flushedThrough().getTime()).toBe(fleet.clock.nowMs());
});

/** A heartbeat with an assigned interval and the stale time that goes with it. */
const pacedBeat = (id: NodeInstanceId, second: number, interval_seconds: number): Beat => ({
  ...beat(id, second),
  interval_seconds,
  stale_seconds: 3 * interval_seconds,
});

const readStaleSeconds = async (id: NodeInstanceId): Promise<number | undefined> =>
  (
    await db.query<{ stale_seconds: number }>('select stale_seconds from heartbeats where node_instance_id = $1', [id])
  )[0]?.stale_seconds;

test('keeps the former stale time of a node with a shorter interval until its next heartbeat', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  for (const [second, interval, allowed] of [
    [1, 10, 30],
    [2, 100, 300],
    [3, 20, 300],
    [4, 20, 60],
  ] as const) {
    buffer.add(pacedBeat(id, second, interval));
    await buffer.flush();
    expect(await readStaleSeconds(id), `after ${second} beats`).toBe(allowed);
  }
});

test('applies the interval that a client sets for itself at once', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  for (const [second, interval] of [
    [1, 100],
    [2, 10],
  ] as const) {
    buffer.add({ ...pacedBeat(id, second, interval), has_assigned_interval: false });
    await buffer.flush();
    expect(await readStaleSeconds(id), `after ${second} beats`).toBe(3 * interval);
  }
  buffer.add({ ...pacedBeat(id, 3, 100), has_assigned_interval: false });
  buffer.add({ ...pacedBeat(id, 4, 10), has_assigned_interval: false });
  await buffer.flush();
  expect(await readStaleSeconds(id), 'two at once').toBe(30);
});

test('keeps the former stale time when both heartbeats share one flush', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(pacedBeat(id, 1, 100));
  buffer.add(pacedBeat(id, 2, 10));
  await buffer.flush();
  expect(await readStaleSeconds(id)).toBe(300);
});

test('drops heartbeats of an unknown instance and stores the rest', async () => {
  const { storage, buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat('inst_unknown' as NodeInstanceId, 1));
  buffer.add(beat(id, 1));
  await buffer.flush();
  expect(storage.errors).toEqual([]);
  expect(await readStored(id)).toBeDefined();
  expect(await readStored('inst_unknown' as NodeInstanceId)).toBeUndefined();
});

test('makes batches wait while the store is behind, but not while it is unavailable', async () => {
  const { storage, buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat(id, 1));
  await buffer.waitForRoom();
  expect(storage.flushes, 'not behind yet').toBe(0);
  let release = () => {};
  storage.hold = new Promise((resolve) => {
    release = resolve;
  });
  const flushing = buffer.flush();
  await fleet.clock.advance(1_000);
  buffer.add(beat(id, 2));
  let hasRoom = false;
  const waiting = [buffer.waitForRoom(), buffer.waitForRoom()].map((each) =>
    each.then(() => {
      hasRoom = true;
    }),
  );
  await Promise.resolve();
  expect(hasRoom).toBe(false);
  release();
  await Promise.all([flushing, ...waiting]);
  expect(storage.flushes, 'one flush for all that waited').toBe(2);
  expect(buffer.storedAfterMs()).toBe(1_000);

  storage.isFailing = true;
  buffer.add(beat(id, 3));
  await buffer.flush();
  await fleet.clock.advance(1_000);
  const flushesBefore = storage.flushes;
  await buffer.waitForRoom();
  expect(storage.flushes, 'no wait while the store is unavailable').toBe(flushesBefore);
  storage.isFailing = false;
  await buffer.stop();
});

test('reports the age of the oldest heartbeat that is not stored, also while flushes hang or fail', async () => {
  const id = await createInstance();
  const { clock } = fleet;
  const hungBuffer = createHeartbeatBuffer({ ...db, transaction: () => new Promise(() => {}) }, clock, () => {});
  expect(hungBuffer.unstoredMs(), 'nothing arrived').toBe(0);
  hungBuffer.add(beat(id, 1));
  await clock.advance(1_000);
  hungBuffer.add(beat(id, 2));
  expect(hungBuffer.unstoredMs()).toBe(1_000);
  await clock.advance(600_000);
  expect(hungBuffer.unstoredMs()).toBe(601_000);
  expect(hungBuffer.storedAfterMs(), 'no flush has succeeded').toBe(0);

  const { storage, buffer } = createCountedBuffer();
  storage.isFailing = true;
  buffer.add(beat(id, 3));
  await buffer.flush();
  await clock.advance(100);
  expect(buffer.unstoredMs()).toBe(100);
  storage.isFailing = false;
  await buffer.flush();
  await clock.advance(1_000);
  expect(buffer.unstoredMs(), 'all are stored, and none arrives').toBe(0);
  await buffer.stop();
});

test('flushes the rest when it stops', async () => {
  const { buffer } = createCountedBuffer();
  const id = await createInstance();
  buffer.add(beat(id, 1));
  await buffer.stop();
  expect(await readStored(id)).toBeDefined();
});

test('never moves flushedThrough back, however rare heartbeats are', async () => {
  const { clock } = fleet;
  const buffer = createHeartbeatBuffer(db, clock, () => {});
  const node = await fleet.node('ready');
  let last = buffer.flushedThrough();
  for (let second = 0; second < 60; second++) {
    await clock.advance(1_000);
    if (second % 5 === 0)
      buffer.add({
        node_instance_id: node.node_instance_id as NodeInstanceId,
        received_ms: clock.nowMs(),
        interval_seconds: 5,
        stale_seconds: 30,
        has_assigned_interval: true,
        reported: null,
      });
    const through = buffer.flushedThrough();
    expect(through >= last, `after ${second} s`).toBe(true);
    last = through;
    if (second % 5 === 0) await buffer.flush();
  }
  await buffer.stop();
});

test('stores times and intervals without rounding, in any order', async () => {
  const [first, second] = [await createInstance(), await createInstance()];
  const buffer = createHeartbeatBuffer(db, fleet.clock, (error) => expect.fail(String(error)));
  const at = fleet.now();
  const after = (ms: number) => ({ received_ms: at.getTime() + ms });
  buffer.add({ ...beat(first, 0), ...after(2000.125), interval_seconds: 10.123, stale_seconds: 30.369 });
  buffer.add({ ...beat(second, 0), ...after(-750), interval_seconds: 0.05, stale_seconds: 3600 });
  await buffer.stop();
  const rows = await db.query<{ after: number; interval_seconds: number; stale_seconds: number }>(
    `select round(extract(epoch from last_seen_at - $2::timestamptz) * 1e6)::int as after, interval_seconds, stale_seconds
     from heartbeats
     where node_instance_id = any($1)
     order by stale_seconds`,
    [[first, second], at],
  );
  expect(rows).toEqual([
    { after: 2_000_125, interval_seconds: 10.123, stale_seconds: 30.369 },
    { after: -750_000, interval_seconds: 0.05, stale_seconds: 3600 },
  ]);
});

test('looks rows up by key even when a scan seems cheaper', async () => {
  const [node] = await db.query<{ node_id: string }>('select node_id from nodes limit 1');
  const others = 20_000;
  await db.transaction(async (tx) => {
    await tx.query(
      `insert into instances (node_instance_id, node_id, attempt, created_at)
       select 'inst_' || n, $1, n + 10, now()
       from generate_series(1, $2::int) as n`,
      [node?.node_id, others],
    );
    await tx.query(
      `insert into heartbeats (node_instance_id, last_seen_at, interval_seconds, stale_seconds)
       select 'inst_' || n, '2000-01-01', 10, 30
       from generate_series(1, $1::int) as n`,
      [others],
    );
  });
  await db.query('analyze heartbeats');
  let sequentialScans: string | undefined;
  const observedDb: Database = {
    ...db,
    transaction: (work) =>
      db.transaction(async (tx) => {
        const done = await work(tx);
        const [scans] = await tx.query<{ seq_scan: string }>(
          `select seq_scan from pg_stat_xact_user_tables where relname = 'heartbeats'`,
        );
        sequentialScans = scans?.seq_scan;
        return done;
      }),
  };
  const buffer = createHeartbeatBuffer(observedDb, fleet.clock, (error) => expect.fail(String(error)));
  for (let n = 1; n <= 1_000; n++) buffer.add(beat(`inst_${n}` as NodeInstanceId, 1));
  await buffer.stop();
  expect(await readStored('inst_1000' as NodeInstanceId)).toMatchObject({ seconds: 1 });
  expect(sequentialScans).toBe('0');
});
