import { expect, test } from 'vitest';
import { shareLookups, systemResolve } from './http-probe.ts';

/** A resolver whose lookups the test answers. */
function slowResolver() {
  const lookups: { name: string; answer: (addresses: string[]) => void; refuse: (error: Error) => void }[] = [];
  const resolve = (name: string) =>
    new Promise<string[]>((answer, refuse) => {
      lookups.push({ name, answer, refuse });
    });
  return { lookups, resolve: shareLookups(resolve) };
}

test('shares one running lookup between callers of the same name', async () => {
  const { lookups, resolve } = slowResolver();
  const [first, second, other] = [resolve('a'), resolve('a'), resolve('b')];
  expect(lookups.map(({ name }) => name)).toEqual(['a', 'b']);
  lookups[0]?.answer(['1.1.1.1']);
  lookups[1]?.answer(['2.2.2.2']);
  expect(await Promise.all([first, second, other])).toEqual([['1.1.1.1'], ['1.1.1.1'], ['2.2.2.2']]);
});

test('starts a new lookup after the last one succeeded or failed', async () => {
  const { lookups, resolve } = slowResolver();
  const failing = resolve('a');
  lookups[0]?.refuse(new Error('no such name'));
  await expect(failing).rejects.toThrow('no such name');
  const second = resolve('a');
  lookups[1]?.answer(['1.1.1.1']);
  expect(await second).toEqual(['1.1.1.1']);
  const third = resolve('a');
  lookups[2]?.answer(['2.2.2.2']);
  expect(await third).toEqual(['2.2.2.2']);
});

test('resolves localhost to all its addresses', async () => {
  expect(await systemResolve('localhost')).toContain('127.0.0.1');
});
