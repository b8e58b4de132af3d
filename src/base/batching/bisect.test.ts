import { expect, test } from 'vitest';
import { bisect } from './bisect.ts';

/** A function that fails for certain keys, and for every batch that contains one. */
function serving(unfit: number[]) {
  const served: number[][] = [];
  const serve = async (keys: readonly number[]) => {
    served.push([...keys]);
    const found = keys.find((key) => unfit.includes(key));
    if (found !== undefined) throw new Error(`cannot serve ${found}`);
    return keys.map((key) => `served ${key}`);
  };
  return { serve, served };
}

const words = (settled: PromiseSettledResult<string>[]) =>
  settled.map((each) => (each.status === 'fulfilled' ? each.value : (each.reason as Error).message));

test('serves all keys in one call if none fails', async () => {
  const { serve, served } = serving([]);
  expect(words(await bisect([1, 2, 3], serve, () => false))).toEqual(['served 1', 'served 2', 'served 3']);
  expect(served).toEqual([[1, 2, 3]]);
});

test('isolates the keys that fail and answers the others in order', async () => {
  const { serve, served } = serving([2, 7]);
  const keys = [1, 2, 3, 4, 5, 6, 7, 8];
  const answers = words(await bisect(keys, serve, () => false));
  expect(answers).toEqual(keys.map((key) => (key === 2 || key === 7 ? `cannot serve ${key}` : `served ${key}`)));
  expect(served.filter((some) => some.length > 1 && !some.includes(2) && !some.includes(7))).toEqual([
    [3, 4],
    [5, 6],
  ]);
});

test('does not retry after a fatal error', async () => {
  const { serve, served } = serving([1]);
  expect(words(await bisect([1, 2, 3], serve, () => true))).toEqual(Array(3).fill('cannot serve 1'));
  expect(served).toHaveLength(1);
});

test('makes no call for an empty list', async () => {
  const { serve, served } = serving([]);
  expect(await bisect([], serve, () => false)).toEqual([]);
  expect(served).toEqual([]);
});
