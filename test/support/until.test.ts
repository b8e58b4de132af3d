import { expect, test } from 'vitest';
import { RequestRefused } from '../../src/contract/client.ts';
import type { Problem } from '../../src/contract/errors/problem.ts';
import { until } from './until.ts';

const refusal = (code: string) => new RequestRefused({ code, title: code, detail: 'from the test' } as Problem);

const failing = (times: number, error: Error) => {
  let calls = 0;
  return () => {
    calls++;
    if (calls <= times) throw error;
    return calls;
  };
};

test('retries a check that the overloaded server refuses', async () => {
  expect(await until('an answer', failing(3, refusal('server_busy')))).toBe(4);
});

test('fails at once on any other error of the check', async () => {
  await expect(until('an answer', failing(1, refusal('not_found')))).rejects.toThrow('not_found');
  await expect(until('an answer', failing(1, new Error('a bug')))).rejects.toThrow('a bug');
});

test('names the condition and the overload when the time is up', async () => {
  const always = failing(Number.POSITIVE_INFINITY, refusal('server_busy'));
  await expect(until('an answer', always, { seconds: 0.05 })).rejects.toThrow(
    'waited 0.05 s for an answer; the server was overloaded',
  );
  await expect(until('nothing', () => undefined, { seconds: 0.05 })).rejects.toThrow(/^waited 0.05 s for nothing$/);
});
