/** The former address of a name is asked once at a time, for a bounded time, and a bounded number of them at once. */
import { expect, test } from 'vitest';
import type { PoolDocument } from '../../contract/pool.ts';
import type { ProbeOutcome, ProbeTarget } from '../../store/supervision/probes.ts';
import { createAskFormer } from './restart.ts';

function prober() {
  const asked: ProbeTarget[] = [];
  const answers: ((outcome: ProbeOutcome) => void)[] = [];
  const probe = (target: ProbeTarget) => {
    asked.push(target);
    return new Promise<ProbeOutcome>((resolve) => answers.push(resolve));
  };
  const ask = createAskFormer({ probe });
  return {
    asked,
    answers,
    ask: (endpoint: string, settings: PoolDocument['probe'] = undefined, token = 'token_1') =>
      ask(endpoint, settings, token),
  };
}

test.each<[ProbeOutcome, string]>([
  [{ ok: true, detail: '' }, 'yes'],
  [{ ok: false, detail: '', because: 'bad_status' }, 'yes'],
  [{ ok: false, detail: '', because: 'too_large' }, 'yes'],
  [{ ok: false, detail: '', because: 'connection_refused' }, 'no'],
  [{ ok: false, detail: '', because: 'unreachable' }, 'unknown'],
  [{ ok: false, detail: '', because: 'timed_out' }, 'unknown'],
  [{ ok: false, detail: '', because: 'unresolvable' }, 'unknown'],
  [{ ok: false, detail: '', because: 'refused_address' }, 'unknown'],
])('%o says %s', async (outcome, expected) => {
  const { ask, answers } = prober();
  const answer = ask('http://10.0.0.1', { allow_private: true });
  answers[0]?.(outcome);
  expect(await answer).toBe(expected);
});

test('the pool says how to ask, within the time that a registration may wait', () => {
  const { ask, asked } = prober();
  void ask('http://10.0.0.1', { timeout_seconds: 30, path: '/up' });
  void ask('http://10.0.0.2', undefined);
  expect(asked).toEqual([
    { base_url: 'http://10.0.0.1', path: '/up', timeout_seconds: 3, allow_private: false },
    { base_url: 'http://10.0.0.2', path: '/health', timeout_seconds: 2, allow_private: false },
  ]);
});

test('a crowd at one address asks it once, and a crowd of addresses is put off', async () => {
  const { ask, asked, answers } = prober();
  const crowd = Array.from({ length: 100 }, () => ask('http://10.0.0.1'));
  expect(asked).toHaveLength(1);
  for (let place = 1; place < 32; place++) void ask(`http://10.0.1.${place}`, undefined, `token_${place}`);
  expect(() => ask('http://10.0.2.1')).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  answers[0]?.({ ok: true, detail: '' });
  expect(new Set(await Promise.all(crowd))).toEqual(new Set(['yes']));
  void ask('http://10.0.2.1');
  expect(asked.at(-1)?.base_url).toBe('http://10.0.2.1');
});

test('a crowd that shows one token leaves room for those of others', async () => {
  const { ask, answers } = prober();
  const crowd = Array.from({ length: 8 }, (_, place) => ask(`http://10.0.1.${place}`, undefined, 'greedy'));
  expect(() => ask('http://10.0.1.9', undefined, 'greedy')).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  void ask('http://10.0.1.9', undefined, 'modest');
  answers[0]?.({ ok: true, detail: '' });
  await crowd[0];
  void ask('http://10.0.1.10', undefined, 'greedy');
});
