import { expect, test } from 'vitest';
import { limitConcurrency } from './limit-concurrency.ts';

/** Work that the test completes or fails by hand. */
function byHand(limit: number) {
  const run = limitConcurrency(limit, (error) => error === 'hopeless');
  const begun: number[] = [];
  const hands = new Map<number, { done(): void; fail(error: string): void }>();
  const ask = (name: number) =>
    run(() => {
      begun.push(name);
      return new Promise<number>((resolve, reject) => hands.set(name, { done: () => resolve(name), fail: reject }));
    });
  return { ask, begun, hands };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('runs at most the limit at a time, in order, and returns each result to its caller', async () => {
  const { ask, begun, hands } = byHand(2);
  const answers = Promise.all([1, 2, 3, 4].map(ask));
  await settled();
  expect(begun).toEqual([1, 2]);
  hands.get(2)?.done();
  await settled();
  expect(begun).toEqual([1, 2, 3]);
  for (const name of [1, 3]) hands.get(name)?.done();
  await settled();
  hands.get(4)?.done();
  expect(await answers).toEqual([1, 2, 3, 4]);
});

test('frees the slot of work that fails', async () => {
  const { ask, begun, hands } = byHand(1);
  for (const name of [1, 2, 3]) {
    const failed = ask(name);
    await settled();
    hands.get(name)?.fail('unlucky');
    await expect(failed).rejects.toBe('unlucky');
  }
  expect(begun).toEqual([1, 2, 3]);
});

test('rejects all waiting calls after a hopeless error, and tries later ones', async () => {
  const { ask, begun, hands } = byHand(1);
  const answers = Promise.allSettled([1, 2, 3].map(ask));
  await settled();
  hands.get(1)?.fail('hopeless');
  expect((await answers).map((each) => each.status === 'rejected' && each.reason)).toEqual(Array(3).fill('hopeless'));
  expect(begun).toEqual([1]);
  const later = ask(4);
  await settled();
  hands.get(4)?.done();
  expect(await later).toBe(4);
});
