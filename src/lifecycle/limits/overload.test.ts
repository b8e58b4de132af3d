import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decideShedding, isDiskShort, noShortage, pressureOf, type ReplicaLoad, shortage } from './overload.ts';

const calm: ReplicaLoad = {
  ...noShortage,
  loop_lag_ms: 5,
  behind_ms: 200,
  beats_per_second: 5_000,
  beat_rate: 5_000,
};
const amount = (max: number) => fc.double({ min: 0, max, noNaN: true });
const anyLoad: fc.Arbitrary<ReplicaLoad> = fc.record({
  loop_lag_ms: amount(60_000),
  behind_ms: amount(600_000),
  beats_per_second: amount(1_000_000),
  beat_rate: fc.double({ min: 1, max: 100_000, noNaN: true }),
  heap_share: amount(1),
  files_share: amount(1),
  is_short_of_connections: fc.boolean(),
  is_short_of_disk: fc.boolean(),
});

test('sheds nothing at the configured rate', () => {
  expect(decideShedding(calm)).toEqual({ reads: false, beats: false, work: false, changes: false, stretch: 1 });
});

test('sheds reads first and heartbeats second, for each kind of load', () => {
  for (const [name, some, much] of [
    ['loop_lag_ms', 1_200, 2_500],
    ['behind_ms', 2_500, 5_000],
    ['beats_per_second', 12_000, 25_000],
  ] as const) {
    expect(decideShedding({ ...calm, [name]: some }), name).toEqual({
      reads: true,
      beats: false,
      work: false,
      changes: false,
      stretch: 1,
    });
    const shed = decideShedding({ ...calm, [name]: much });
    expect(shed, name).toMatchObject({ reads: true, beats: true });
    expect(shed.stretch, name).toBeGreaterThan(1);
  }
});

test('starts shedding exactly at the threshold', () => {
  expect(decideShedding({ ...calm, loop_lag_ms: 999 })).toMatchObject({ reads: false });
  expect(decideShedding({ ...calm, loop_lag_ms: 1_000 })).toEqual({
    reads: true,
    beats: false,
    work: false,
    changes: false,
    stretch: 1,
  });
  expect(decideShedding({ ...calm, loop_lag_ms: 2_000 })).toEqual({
    reads: true,
    beats: true,
    work: false,
    changes: false,
    stretch: 2,
  });
});

test('refuses lists and new work, but no heartbeats, while short of memory, files or connections', () => {
  for (const load of [
    { heap_share: shortage.heap_share },
    { files_share: shortage.files_share },
    { is_short_of_connections: true },
  ])
    expect(decideShedding({ ...calm, ...load })).toEqual({
      reads: true,
      beats: false,
      work: true,
      changes: true,
      stretch: 1,
    });
  expect(decideShedding({ ...calm, heap_share: 0.84, files_share: 0.96 })).toMatchObject({ reads: false, work: false });
});

test('refuses only new changes, and no lists, while short of disk space', () => {
  expect(decideShedding({ ...calm, is_short_of_disk: true })).toEqual({
    reads: false,
    beats: false,
    work: false,
    changes: true,
    stretch: 1,
  });
});

test('is short of disk space below 2 % of the disk, and below 512 MiB of a large one', () => {
  expect(isDiskShort({ free_bytes: 19, total_bytes: 1_000 })).toBe(true);
  expect(isDiskShort({ free_bytes: 20, total_bytes: 1_000 })).toBe(false);
  expect(isDiskShort({ free_bytes: 512 * 1024 ** 2 - 1, total_bytes: 1e12 })).toBe(true);
  expect(isDiskShort({ free_bytes: 512 * 1024 ** 2, total_bytes: 1e12 })).toBe(false);
});

test('does not count a few heartbeats as overload when the configured rate is very low', () => {
  const few = { ...calm, beats_per_second: 150, beat_rate: 0.5 };
  expect(decideShedding(few)).toEqual({ reads: false, beats: false, work: false, changes: false, stretch: 1 });
  expect(decideShedding({ ...few, beats_per_second: 500 })).toMatchObject({ reads: true, beats: true });
});

test('never sheds heartbeats before reads, and keeps the stretch within bounds', () => {
  fc.assert(
    fc.property(anyLoad, (load) => {
      const { reads, beats, stretch } = decideShedding(load);
      if (beats) expect(reads).toBe(true);
      expect(stretch).toBeGreaterThanOrEqual(1);
      expect(stretch).toBeLessThanOrEqual(4);
      expect(stretch > 1).toBe(beats);
    }),
  );
});

test('sheds at least as much under more load', () => {
  fc.assert(
    fc.property(anyLoad, anyLoad, (a, b) => {
      const worse: ReplicaLoad = {
        loop_lag_ms: Math.max(a.loop_lag_ms, b.loop_lag_ms),
        behind_ms: Math.max(a.behind_ms, b.behind_ms),
        beats_per_second: Math.max(a.beats_per_second, b.beats_per_second),
        beat_rate: Math.min(a.beat_rate, b.beat_rate),
        heap_share: Math.max(a.heap_share, b.heap_share),
        files_share: Math.max(a.files_share, b.files_share),
        is_short_of_connections: a.is_short_of_connections || b.is_short_of_connections,
        is_short_of_disk: a.is_short_of_disk || b.is_short_of_disk,
      };
      const [before, after] = [decideShedding(a), decideShedding(worse)];
      expect(pressureOf(worse)).toBeGreaterThanOrEqual(pressureOf(a));
      expect(after.reads || !before.reads).toBe(true);
      expect(after.beats || !before.beats).toBe(true);
      expect(after.work || !before.work).toBe(true);
      expect(after.changes || !before.changes).toBe(true);
      expect(after.stretch).toBeGreaterThanOrEqual(before.stretch);
    }),
  );
});
