import { expect, test } from 'vitest';
import { limitConcurrency } from './limit-concurrency.ts';

/** Starts calls that the test completes or fails one by one. */
function createCalls(limit: number) {
  const run = limitConcurrency(limit, (error) => error === 'fatal');
  const started: number[] = [];
  const calls = new Map<number, { done(): void; fail(error: string): void }>();
  const start = (name: number) =>
    run(() => {
      started.push(name);
      return new Promise<number>((resolve, reject) => calls.set(name, { done: () => resolve(name), fail: reject }));
    });
  return { start, started, calls };
}

const nextTick = () => new Promise((resolve) => setImmediate(resolve));

test('runs at most `limit` calls at a time, in order of arrival, and returns each result to its caller', async () => {
  const { start, started, calls } = createCalls(2);
  const answers = Promise.all([1, 2, 3, 4].map(start));
  await nextTick();
  expect(started).toEqual([1, 2]);
  calls.get(2)?.done();
  await nextTick();
  expect(started).toEqual([1, 2, 3]);
  for (const name of [1, 3]) calls.get(name)?.done();
  await nextTick();
  calls.get(4)?.done();
  expect(await answers).toEqual([1, 2, 3, 4]);
});

test('frees the slot of a failed call', async () => {
  const { start, started, calls } = createCalls(1);
  for (const name of [1, 2, 3]) {
    const failed = start(name);
    await nextTick();
    calls.get(name)?.fail('failed');
    await expect(failed).rejects.toBe('failed');
  }
  expect(started).toEqual([1, 2, 3]);
});

test('rejects all waiting calls after a fatal error, and runs later ones', async () => {
  const { start, started, calls } = createCalls(1);
  const answers = Promise.allSettled([1, 2, 3].map(start));
  await nextTick();
  calls.get(1)?.fail('fatal');
  expect((await answers).map((each) => each.status === 'rejected' && each.reason)).toEqual(Array(3).fill('fatal'));
  expect(started).toEqual([1]);
  const later = start(4);
  await nextTick();
  calls.get(4)?.done();
  expect(await later).toBe(4);
});
