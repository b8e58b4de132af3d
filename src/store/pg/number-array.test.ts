import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { encodeFloat8Array } from './number-array.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

test.each([
  ['no number', []],
  ['one number', [0]],
  ['integers, fractions and negative numbers', [1, -2, 0.1, 1_794_847_140_096.125, 1e-300, -1e300]],
])('PostgreSQL reads the same numbers in the same order: %s', async (_, values: number[]) => {
  expect(await store.db.query('select $1::float8[] as read', [encodeFloat8Array(values)])).toEqual([{ read: values }]);
});
