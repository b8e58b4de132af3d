import { expect, onTestFinished, test } from 'vitest';
import { virtualClock } from '../base/virtual-clock.ts';
import { watchDiskShortage } from './disk-shortage.ts';

function watchTestDisk(database_dir: string | null) {
  const clock = virtualClock();
  const disk = { free_bytes: 50, total_bytes: 1_000, isFull: false, hasSpaceAgain: false };
  let tests = 0;
  const { isShort, stop } = watchDiskShortage({
    clock,
    database_dir,
    isDiskFull: () => disk.isFull,
    async testWrites() {
      tests++;
      if (disk.hasSpaceAgain) disk.isFull = false;
    },
    onError: (error) => {
      throw error;
    },
    readSpace: async () => disk,
  });
  onTestFinished(stop);
  return { clock, disk, isShort, tests: () => tests };
}

test('a failed test of writes is a shortage at once, is repeated, and ends the shortage when it succeeds', async () => {
  const { clock, disk, isShort, tests } = watchTestDisk(null);
  disk.free_bytes = 0;
  await clock.advance(60_000);
  expect({ isShort: isShort(), tests: tests() }, 'the database is on another disk').toEqual({
    isShort: false,
    tests: 0,
  });
  disk.isFull = true;
  expect(isShort()).toBe(true);
  await clock.advance(60_000);
  expect(isShort()).toBe(true);
  expect(tests()).toBe(30);
  disk.hasSpaceAgain = true;
  await clock.advance(12_000);
  expect(isShort()).toBe(false);
  expect(tests()).toBe(31);
});

test('a nearly full disk of the embedded database is a shortage until it had space for 10 s', async () => {
  const { clock, disk, isShort, tests } = watchTestDisk('/data');
  await clock.advance(60_000);
  expect(isShort()).toBe(false);
  disk.free_bytes = 19;
  await clock.advance(2_000);
  expect(isShort()).toBe(true);
  disk.free_bytes = 20;
  await clock.advance(8_000);
  expect(isShort()).toBe(true);
  await clock.advance(2_000);
  expect(isShort()).toBe(false);
  expect(tests()).toBe(0);
});
