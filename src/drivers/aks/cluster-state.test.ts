import { expect, it } from 'vitest';
import type { Cluster } from './azure/azure-clusters.ts';
import { formatElapsed, isReady, progressMessage, progressParts } from './cluster-state.ts';

const pool = (state: string) => ({ name: 'systempool', state, count: 1, error: null });
const readyCluster: Cluster = {
  id: '/subscriptions/s',
  tags: {},
  provisioning: 'Succeeded',
  power: 'Running',
  version: '1.33.4',
  pools: [pool('Succeeded')],
  error: null,
  created_at: null,
};

it('a running cluster is ready if the cluster and all its pools were created', () => {
  expect(isReady(readyCluster)).toBe(true);
});

it.each<[string, Partial<Cluster>]>([
  ['it runs but is still being created', { provisioning: 'Creating' }],
  ['it runs but is being updated', { provisioning: 'Updating' }],
  ['it was created but is stopped', { power: 'Stopped' }],
  ['one of its pools is still being created', { pools: [pool('Succeeded'), pool('Creating')] }],
  ['one of its pools failed', { pools: [pool('Failed')] }],
  ['Azure lists no pools', { pools: [] }],
])('a cluster is not ready if %s', (_, change) => {
  expect(isReady({ ...readyCluster, ...change })).toBe(false);
});

it.each([
  ['Succeeded', 'ok'],
  ['Creating', 'busy'],
  ['Upgrading', 'busy'],
  ['Failed', 'bad'],
  ['Canceled', 'bad'],
])('a pool in state %s has tone %s', (state, tone) => {
  expect(progressParts({ ...readyCluster, pools: [pool(state)] })).toEqual([
    { name: 'systempool', kind: 'pool', state, tone, count: 1 },
  ]);
});

it.each([
  [0, '0s'],
  [59.9, '59s'],
  [100, '1m 40s'],
  [3725, '1h 02m'],
])('formats %d s as %s', (seconds, text) => {
  expect(formatElapsed(seconds)).toBe(text);
});

it('shows the percentage if Azure reports one', () => {
  const creating = { ...readyCluster, provisioning: 'Creating' };
  expect(progressMessage(creating, 100, null)).toBe('AKS state: Creating · for 1m 40s');
  expect(progressMessage(creating, 100, 41.6)).toBe('AKS state: Creating · for 1m 40s · 42%');
});
