import { expect, test } from 'vitest';
import { gathered } from './batch.ts';

/** Somebody who answers when told to, and remembers what was asked together. */
function asked(limits: { most: number; at_once: number }) {
  const questions: { keys: number[]; answer(): void; fail(error: Error): void }[] = [];
  const ask = gathered(
    (keys: number[]) =>
      new Promise<string[]>((resolve, reject) => {
        questions.push({ keys, answer: () => resolve(keys.map((key) => `answer ${key}`)), fail: reject });
      }),
    limits,
  );
  return { ask, questions, together: () => questions.map(({ keys }) => keys) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('what is asked for in the same breath is one question, and each gets its own answer', async () => {
  const { ask, questions, together } = asked({ most: 10, at_once: 2 });
  const answers = Promise.all([1, 2, 3].map(ask));
  await settled();
  expect(together()).toEqual([[1, 2, 3]]);
  questions[0]?.answer();
  expect(await answers).toEqual(['answer 1', 'answer 2', 'answer 3']);
});

test('who comes while all are being answered goes with the next question, up to its limit', async () => {
  const { ask, questions, together } = asked({ most: 3, at_once: 2 });
  const answers = [];
  for (const key of [1, 2, 3, 4, 5, 6, 7]) {
    answers.push(ask(key));
    await settled();
  }
  expect(together(), 'the first ones need no company').toEqual([[1], [2]]);
  questions[0]?.answer();
  await settled();
  expect(together().slice(2)).toEqual([[3, 4, 5]]);
  questions[2]?.answer();
  await settled();
  expect(together().slice(3)).toEqual([[6, 7]]);
  for (const { answer } of questions) answer();
  expect(await Promise.all(answers)).toHaveLength(7);
});

test('a question that fails fails for those who asked it, and for nobody after them', async () => {
  const { ask, questions } = asked({ most: 10, at_once: 1 });
  const first = ask(1);
  await settled();
  const second = ask(2);
  questions[0]?.fail(new Error('the store is away'));
  await expect(first).rejects.toThrow('the store is away');
  await settled();
  questions[1]?.answer();
  expect(await second).toBe('answer 2');
});
