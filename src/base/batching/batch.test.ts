import { expect, test } from 'vitest';
import { createBatcher } from './batch.ts';

/** A batcher whose batches the test answers. */
function createTestBatcher(limits: { max_keys: number; max_concurrent: number }) {
  const batches: { keys: number[]; answer(): void; fail(error: Error): void }[] = [];
  const call = createBatcher(
    (keys: number[]) =>
      new Promise<string[]>((resolve, reject) => {
        batches.push({ keys, answer: () => resolve(keys.map((key) => `answer ${key}`)), fail: reject });
      }),
    limits,
  );
  return { call, batches, batchKeys: () => batches.map(({ keys }) => keys) };
}

const nextTick = () => new Promise((resolve) => setImmediate(resolve));

test('puts calls of one tick into one batch and returns each its own answer', async () => {
  const { call, batches, batchKeys } = createTestBatcher({ max_keys: 10, max_concurrent: 2 });
  const answers = Promise.all([1, 2, 3].map(call));
  await nextTick();
  expect(batchKeys()).toEqual([[1, 2, 3]]);
  batches[0]?.answer();
  expect(await answers).toEqual(['answer 1', 'answer 2', 'answer 3']);
});

test('collects calls while batches run, up to the size limit', async () => {
  const { call, batches, batchKeys } = createTestBatcher({ max_keys: 3, max_concurrent: 2 });
  const answers = [];
  for (const key of [1, 2, 3, 4, 5, 6, 7]) {
    answers.push(call(key));
    await nextTick();
  }
  expect(batchKeys(), 'the first calls do not wait').toEqual([[1], [2]]);
  batches[0]?.answer();
  await nextTick();
  expect(batchKeys().slice(2)).toEqual([[3, 4, 5]]);
  batches[2]?.answer();
  await nextTick();
  expect(batchKeys().slice(3)).toEqual([[6, 7]]);
  for (const { answer } of batches) answer();
  expect(await Promise.all(answers)).toHaveLength(7);
});

test('rejects only the calls of the batch that failed', async () => {
  const { call, batches } = createTestBatcher({ max_keys: 10, max_concurrent: 1 });
  const first = call(1);
  await nextTick();
  const second = call(2);
  batches[0]?.fail(new Error('the store is unavailable'));
  await expect(first).rejects.toThrow('the store is unavailable');
  await nextTick();
  batches[1]?.answer();
  expect(await second).toBe('answer 2');
});
