import { expect, it } from 'vitest';
import type { Cluster } from './azure/azure-clusters.ts';
import { elapsed, isReady, partsOf, progressMessage } from './cluster-words.ts';

const pool = (state: string) => ({ name: 'systempool', state, count: 1, error: null });
const made: Cluster = {
  id: '/subscriptions/s',
  tags: {},
  provisioning: 'Succeeded',
  power: 'Running',
  version: '1.33.4',
  pools: [pool('Succeeded')],
  error: null,
  created_at: null,
};

it('is ready only if it and every pool are created and running', () => {
  expect(isReady(made)).toBe(true);
});

it.each<[string, Partial<Cluster>]>([
  ['running while it is still being created', { provisioning: 'Creating' }],
  ['running while it is changed', { provisioning: 'Updating' }],
  ['made and stopped', { power: 'Stopped' }],
  ['made, and a pool is not', { pools: [pool('Succeeded'), pool('Creating')] }],
  ['made, and a pool failed', { pools: [pool('Failed')] }],
  ['made, and nothing is known of its pools', { pools: [] }],
])('is not ready: %s', (_, change) => {
  expect(isReady({ ...made, ...change })).toBe(false);
});

it.each([
  ['Succeeded', 'ok'],
  ['Creating', 'busy'],
  ['Upgrading', 'busy'],
  ['Failed', 'bad'],
  ['Canceled', 'bad'],
])('a pool in state %s has tone %s', (state, tone) => {
  expect(partsOf({ ...made, pools: [pool(state)] })).toEqual([
    { name: 'systempool', kind: 'pool', state, tone, count: 1 },
  ]);
});

it.each([
  [0, '0s'],
  [59.9, '59s'],
  [100, '1m 40s'],
  [3725, '1h 02m'],
])('formats %d s as %s', (seconds, words) => {
  expect(elapsed(seconds)).toBe(words);
});

it('shows the percentage if Azure gives one', () => {
  const creating = { ...made, provisioning: 'Creating' };
  expect(progressMessage(creating, 100, null)).toBe('AKS state: Creating · ARM 1m 40s');
  expect(progressMessage(creating, 100, 41.6)).toBe('AKS state: Creating · ARM 1m 40s · 42%');
});
