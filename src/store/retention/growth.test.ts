/** The growth of the database is measured from bounded samples of its size. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment } from '../../base/clock.ts';
import { readGrowth, sampleSize } from './growth.ts';

let store: TestStore;
beforeEach(async () => {
  store = await testStore();
});
afterEach(() => store.close());

const start = moment(Date.parse('2026-01-01T00:00:00Z'));
const at = (hours: number) => moment(start.getTime() + hours * 3_600_000);

const listSamples = () =>
  store.db.query<{ sampled_at: Date; bytes: string; nodes: number }>('select * from size_samples order by sampled_at');

/** Stores one sample an hour. The size in them grows by `bytes` an hour from 1 GB at hour 0. */
const placeSamples = (from: number, to: number, bytes: number, nodes: number) =>
  store.db.query(
    `insert into size_samples (sampled_at, bytes, nodes)
     select $1::timestamptz + make_interval(hours => i), 1e9 + i * $4::float8, $5
     from generate_series($2::int, $3::int) as i`,
    [start, from, to, bytes, nodes],
  );

test('takes one sample an hour, whichever replica runs, and keeps those of eight days', async () => {
  const { db } = store;
  for (let minutes = 0; minutes < 300; minutes += 10) {
    await sampleSize(db, at(minutes / 60));
    await sampleSize(db, at(minutes / 60));
  }
  const samples = await listSamples();
  expect(samples.map(({ sampled_at }) => sampled_at)).toEqual([0, 1, 2, 3, 4].map(at));
  const [size] = await db.query<{ bytes: string }>('select pg_database_size(current_database()) as bytes');
  expect(Number(samples[0]?.bytes)).toBeGreaterThan(0.9 * Number(size?.bytes));

  await sampleSize(db, at(8 * 24 + 2.5));
  expect((await listSamples()).map(({ sampled_at }) => sampled_at)).toEqual([at(3), at(4), at(8 * 24 + 2.5)]);
});

test('continues to take samples after the clock of the database went back', async () => {
  await sampleSize(store.db, at(100));
  await sampleSize(store.db, at(50));
  await sampleSize(store.db, at(51));
  expect(await listSamples()).toHaveLength(3);
});

test('counts the machines that are not retired', async () => {
  await store.db.query(
    `insert into counts (of, status, change) values ('nodes', 'ready', 3), ('nodes', 'retired', 5), ('nodes', 'offline', 1)`,
  );
  await sampleSize(store.db, start);
  expect(await listSamples()).toMatchObject([{ nodes: 4 }]);
});

test('measures bytes a day, and for each machine, from the samples of a week', async () => {
  const { db } = store;
  expect(await readGrowth(db, at(0))).toBeNull();
  await placeSamples(0, 23, 1e6, 10);
  expect(await readGrowth(db, at(23)), 'less than a day').toBeNull();
  await placeSamples(24, 24, 1e6, 10);
  expect(await readGrowth(db, at(24))).toEqual({
    bytes_per_day: expect.closeTo(24e6, -1),
    bytes_per_node_day: expect.closeTo(24e5, -1),
  });
  // A week later the first day no longer counts, and the rate is the new one.
  await db.query('delete from size_samples');
  await placeSamples(0, 24, 1e9, 10);
  await placeSamples(25, 8 * 24 + 1, 1e6, 0);
  expect(await readGrowth(db, at(8 * 24 + 1))).toEqual({
    bytes_per_day: expect.closeTo(24e6, -1),
    bytes_per_node_day: null,
  });
});
