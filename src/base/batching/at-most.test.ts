import { expect, test } from 'vitest';
import { atMost } from './at-most.ts';

/** Work that is let go, or fails, by hand. */
function byHand(limit: number) {
  const run = atMost(limit, (error) => error === 'hopeless');
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

test('so many at a time, the others in their order, each with its own answer', async () => {
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

test('one that fails makes place for the next, and places are not lost', async () => {
  const { ask, begun, hands } = byHand(1);
  for (const name of [1, 2, 3]) {
    const failed = ask(name);
    await settled();
    hands.get(name)?.fail('unlucky');
    await expect(failed).rejects.toBe('unlucky');
  }
  expect(begun).toEqual([1, 2, 3]);
});

test('once it is hopeless, whoever waits is told so, and who comes later is tried', async () => {
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
