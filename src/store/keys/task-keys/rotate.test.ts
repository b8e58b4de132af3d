/** Tests when a rotated key signs, how long the former one is accepted, and when a key is due. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { moment, secondsLater, systemClock } from '../../../base/clock.ts';
import { openInstallation } from '../installation.ts';
import { createKeySet, listTaskKeys } from './key-set.ts';
import { maintainTaskKeys, rotateTaskKey } from './rotate.ts';

let store: TestStore;
const start = moment(Date.parse('2030-01-01T00:00:00Z'));
const overlap_seconds = 100;
const at = (seconds: number) => ({ now: secondsLater(start, seconds), overlap_seconds });

beforeAll(async () => {
  store = await testStore();
  await openInstallation(store.db, start, systemClock);
});
afterAll(() => store.close());

test('refuses the second of two concurrent rotations, and the new key signs after the overlap', async () => {
  const attempts = await Promise.allSettled([rotateTaskKey(store.db, at(10)), rotateTaskKey(store.db, at(10))]);
  const [rotated] = attempts.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const [refused] = attempts.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  expect(refused).toMatchObject({ code: 'task_key_pending' });
  const keys = createKeySet(await listTaskKeys(store.db));
  const signingAt = (seconds: number) => keys.findSigning(at(seconds).now.getTime()).row.kid;
  const acceptedAt = (seconds: number) => keys.listAccepted(at(seconds).now.getTime()).map(({ kid }) => kid);
  expect([signingAt(109), signingAt(110)]).toEqual([rotated?.former_kid, rotated?.kid]);
  expect(acceptedAt(20)).toEqual([rotated?.former_kid, rotated?.kid]);
  expect(acceptedAt(209)).toEqual([rotated?.former_kid, rotated?.kid]);
  expect(acceptedAt(210)).toEqual([rotated?.kid]);
});

test('rotates a key once at its maximum age, and deletes the private part of a retired key', async () => {
  const readNewestKid = async () => (await listTaskKeys(store.db)).at(-1)?.kid;
  const before = await readNewestKid();
  const maxAge = 1000;
  expect(await maintainTaskKeys(store.db, at(209), maxAge)).toBe(0);
  expect(await maintainTaskKeys(store.db, at(210), maxAge), 'the first key is retired').toBe(1);
  expect((await listTaskKeys(store.db)).map(({ private_key }) => private_key !== null)).toEqual([false, true]);
  expect(await maintainTaskKeys(store.db, at(1109), maxAge)).toBe(0);
  expect(await readNewestKid()).toBe(before);
  await Promise.all([maintainTaskKeys(store.db, at(1110), maxAge), maintainTaskKeys(store.db, at(1110), maxAge)]);
  expect(await readNewestKid()).not.toBe(before);
  expect(await listTaskKeys(store.db)).toHaveLength(3);
  expect(await maintainTaskKeys(store.db, at(9_999_999), 0), 'a maximum age of 0 only deletes the private part').toBe(
    1,
  );
  expect(await listTaskKeys(store.db)).toHaveLength(3);
});
