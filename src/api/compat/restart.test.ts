/** Tests how answers of former addresses are judged, and how many probes may run at once. */
import { expect, test } from 'vitest';
import type { PoolDocument } from '../../contract/pool.ts';
import type { ProbeOutcome, ProbeTarget } from '../../store/supervision/probes.ts';
import { createFormerAddressProbe } from './restart.ts';

function prober() {
  const probed: ProbeTarget[] = [];
  const answers: ((outcome: ProbeOutcome) => void)[] = [];
  const probe = (target: ProbeTarget) => {
    probed.push(target);
    return new Promise<ProbeOutcome>((resolve) => answers.push(resolve));
  };
  const probeFormerAddress = createFormerAddressProbe({ probe });
  return {
    probed,
    answers,
    probeFormerAddress: (endpoint: string, settings: PoolDocument['probe'] = undefined, token = 'token_1') =>
      probeFormerAddress(endpoint, settings, token),
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
])(
  'after the probe outcome %o, the answer to "does the former address still answer?" is %s',
  async (outcome, expected) => {
    const { probeFormerAddress, answers } = prober();
    const answer = probeFormerAddress('http://10.0.0.1', { allow_private: true });
    answers[0]?.(outcome);
    expect(await answer).toBe(expected);
  },
);

test('uses the probe settings of the pool, with a timeout that a registration can wait for', () => {
  const { probeFormerAddress, probed } = prober();
  void probeFormerAddress('http://10.0.0.1', { timeout_seconds: 30, path: '/up' });
  void probeFormerAddress('http://10.0.0.2', undefined);
  expect(probed).toEqual([
    { base_url: 'http://10.0.0.1', path: '/up', timeout_seconds: 3, allow_private: false },
    { base_url: 'http://10.0.0.2', path: '/health', timeout_seconds: 2, allow_private: false },
  ]);
});

test('probes one address once for many callers, and refuses too many addresses', async () => {
  const { probeFormerAddress, probed, answers } = prober();
  const crowd = Array.from({ length: 100 }, () => probeFormerAddress('http://10.0.0.1'));
  expect(probed).toHaveLength(1);
  for (let place = 1; place < 32; place++)
    void probeFormerAddress(`http://10.0.1.${place}`, undefined, `token_${place}`);
  expect(() => probeFormerAddress('http://10.0.2.1')).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  answers[0]?.({ ok: true, detail: '' });
  expect(new Set(await Promise.all(crowd))).toEqual(new Set(['yes']));
  void probeFormerAddress('http://10.0.2.1');
  expect(probed.at(-1)?.base_url).toBe('http://10.0.2.1');
});

test('limits the probes of one token, so that other tokens can probe', async () => {
  const { probeFormerAddress, answers } = prober();
  const crowd = Array.from({ length: 8 }, (_, place) =>
    probeFormerAddress(`http://10.0.1.${place}`, undefined, 'greedy'),
  );
  expect(() => probeFormerAddress('http://10.0.1.9', undefined, 'greedy')).toThrow(
    expect.objectContaining({ code: 'rate_limited' }),
  );
  void probeFormerAddress('http://10.0.1.9', undefined, 'modest');
  answers[0]?.({ ok: true, detail: '' });
  await crowd[0];
  void probeFormerAddress('http://10.0.1.10', undefined, 'greedy');
});
