import { expect, test } from 'vitest';
import { createBatcher } from './batch.ts';

/** A batcher whose batches the test answers by hand. */
function batcherByHand(limits: { max_keys: number; max_concurrent: number }) {
  const questions: { keys: number[]; answer(): void; fail(error: Error): void }[] = [];
  const ask = createBatcher(
    (keys: number[]) =>
      new Promise<string[]>((resolve, reject) => {
        questions.push({ keys, answer: () => resolve(keys.map((key) => `answer ${key}`)), fail: reject });
      }),
    limits,
  );
  return { ask, questions, together: () => questions.map(({ keys }) => keys) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('puts calls of one tick into one batch and returns each its own answer', async () => {
  const { ask, questions, together } = batcherByHand({ max_keys: 10, max_concurrent: 2 });
  const answers = Promise.all([1, 2, 3].map(ask));
  await settled();
  expect(together()).toEqual([[1, 2, 3]]);
  questions[0]?.answer();
  expect(await answers).toEqual(['answer 1', 'answer 2', 'answer 3']);
});

test('collects calls while batches run, up to the size limit', async () => {
  const { ask, questions, together } = batcherByHand({ max_keys: 3, max_concurrent: 2 });
  const answers = [];
  for (const key of [1, 2, 3, 4, 5, 6, 7]) {
    answers.push(ask(key));
    await settled();
  }
  expect(together(), 'the first calls do not wait').toEqual([[1], [2]]);
  questions[0]?.answer();
  await settled();
  expect(together().slice(2)).toEqual([[3, 4, 5]]);
  questions[2]?.answer();
  await settled();
  expect(together().slice(3)).toEqual([[6, 7]]);
  for (const { answer } of questions) answer();
  expect(await Promise.all(answers)).toHaveLength(7);
});

test('rejects only the calls of the batch that failed', async () => {
  const { ask, questions } = batcherByHand({ max_keys: 10, max_concurrent: 1 });
  const first = ask(1);
  await settled();
  const second = ask(2);
  questions[0]?.fail(new Error('the store is away'));
  await expect(first).rejects.toThrow('the store is away');
  await settled();
  questions[1]?.answer();
  expect(await second).toBe('answer 2');
});
