/** The former address of a name is asked once at a time, for a bounded time, and a bounded number of them at once. */
import { expect, test } from 'vitest';
import type { ProbeOutcome, ProbeTarget } from '../../store/probes.ts';
import { createAskFormer } from './restart.ts';

function prober() {
  const asked: ProbeTarget[] = [];
  const answers: ((outcome: ProbeOutcome) => void)[] = [];
  const probe = (target: ProbeTarget) => {
    asked.push(target);
    return new Promise<ProbeOutcome>((resolve) => answers.push(resolve));
  };
  return { asked, answers, ask: createAskFormer({ probe }) };
}

test.each<[ProbeOutcome, string]>([
  [{ ok: true, detail: '' }, 'yes'],
  [{ ok: false, detail: '', because: 'bad_status' }, 'yes'],
  [{ ok: false, detail: '', because: 'too_large' }, 'yes'],
  [{ ok: false, detail: '', because: 'unreachable' }, 'no'],
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
  const crowd = Array.from({ length: 100 }, () => ask('http://10.0.0.1', undefined));
  expect(asked).toHaveLength(1);
  for (let place = 1; place < 32; place++) void ask(`http://10.0.1.${place}`, undefined);
  expect(() => ask('http://10.0.2.1', undefined)).toThrow(expect.objectContaining({ code: 'server_busy' }));
  answers[0]?.({ ok: true, detail: '' });
  expect(new Set(await Promise.all(crowd))).toEqual(new Set(['yes']));
  void ask('http://10.0.2.1', undefined);
  expect(asked.at(-1)?.base_url).toBe('http://10.0.2.1');
});
