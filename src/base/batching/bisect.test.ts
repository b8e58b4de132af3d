import { expect, test } from 'vitest';
import { bisect } from './bisect.ts';

/** Returns a function that fails for every list of keys that contains a bad one. */
function createServe(badKeys: number[]) {
  const calls: number[][] = [];
  const serve = async (keys: readonly number[]) => {
    calls.push([...keys]);
    const badKey = keys.find((key) => badKeys.includes(key));
    if (badKey !== undefined) throw new Error(`cannot serve ${badKey}`);
    return keys.map((key) => `served ${key}`);
  };
  return { serve, calls };
}

const results = (settled: PromiseSettledResult<string>[]) =>
  settled.map((each) => (each.status === 'fulfilled' ? each.value : (each.reason as Error).message));

test('serves all keys in one call if none fails', async () => {
  const { serve, calls } = createServe([]);
  expect(results(await bisect([1, 2, 3], serve, () => false))).toEqual(['served 1', 'served 2', 'served 3']);
  expect(calls).toEqual([[1, 2, 3]]);
});

test('isolates the keys that fail and answers the others in order', async () => {
  const { serve, calls } = createServe([2, 7]);
  const keys = [1, 2, 3, 4, 5, 6, 7, 8];
  const answers = results(await bisect(keys, serve, () => false));
  expect(answers).toEqual(keys.map((key) => (key === 2 || key === 7 ? `cannot serve ${key}` : `served ${key}`)));
  expect(calls.filter((some) => some.length > 1 && !some.includes(2) && !some.includes(7))).toEqual([
    [3, 4],
    [5, 6],
  ]);
});

test('does not retry after a fatal error', async () => {
  const { serve, calls } = createServe([1]);
  expect(results(await bisect([1, 2, 3], serve, () => true))).toEqual(Array(3).fill('cannot serve 1'));
  expect(calls).toHaveLength(1);
});

test('makes no call for an empty list', async () => {
  const { serve, calls } = createServe([]);
  expect(await bisect([], serve, () => false)).toEqual([]);
  expect(calls).toEqual([]);
});
