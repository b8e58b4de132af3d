import { expect, test } from 'vitest';
import { oneLookupPerName, systemResolve } from './resolve-name.ts';

/** A resolver that answers when it is told to. */
function slowResolver() {
  const asked: { name: string; answer: (addresses: string[]) => void; refuse: (error: Error) => void }[] = [];
  const resolve = (name: string) =>
    new Promise<string[]>((answer, refuse) => {
      asked.push({ name, answer, refuse });
    });
  return { asked, resolve: oneLookupPerName(resolve) };
}

test('all who ask for a name while it is looked up wait for one lookup', async () => {
  const { asked, resolve } = slowResolver();
  const [first, second, other] = [resolve('a'), resolve('a'), resolve('b')];
  expect(asked.map(({ name }) => name)).toEqual(['a', 'b']);
  asked[0]?.answer(['1.1.1.1']);
  asked[1]?.answer(['2.2.2.2']);
  expect(await Promise.all([first, second, other])).toEqual([['1.1.1.1'], ['1.1.1.1'], ['2.2.2.2']]);
});

test('nothing is remembered: the next who asks is answered anew, also after a failure', async () => {
  const { asked, resolve } = slowResolver();
  const failing = resolve('a');
  asked[0]?.refuse(new Error('no such name'));
  await expect(failing).rejects.toThrow('no such name');
  const second = resolve('a');
  asked[1]?.answer(['1.1.1.1']);
  expect(await second).toEqual(['1.1.1.1']);
  const third = resolve('a');
  asked[2]?.answer(['2.2.2.2']);
  expect(await third).toEqual(['2.2.2.2']);
});

test('the host resolves its own name for loopback to all its addresses', async () => {
  expect(await systemResolve('localhost')).toContain('127.0.0.1');
});
