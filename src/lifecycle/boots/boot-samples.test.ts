import { describe, expect, test } from 'vitest';
import type { NodeStatus } from '../model/states.ts';
import { type Cause, causes, type Edge, nodeEdges } from '../model/transitions.ts';
import { type SampleEnd, sampleOf } from './boot-samples.ts';

type Change = [from: NodeStatus | 'new', to: NodeStatus, by: Cause];
const unregistered = (...[from, to, by]: Change) => sampleOf(from, to, by, false);
const registered = (...[from, to, by]: Change) => sampleOf(from, to, by, true);

describe('a boot', () => {
  test.for<[...Change, SampleEnd]>([
    ['provisioning', 'starting', 'registration', { phase: 'provision', outcome: 'completed' }],
    ['provisioning', 'starting', 'ensured', { phase: 'provision', outcome: 'completed' }],
    ['starting', 'ready', 'claim-ready', { phase: 'start', outcome: 'completed' }],
    ['starting', 'ready', 'stuck-starting', { phase: 'start', outcome: 'completed' }],
    ['provisioning', 'failed', 'provision-deadline', { phase: 'provision', outcome: 'timed_out' }],
    ['starting', 'failed', 'start-deadline', { phase: 'start', outcome: 'timed_out' }],
    ['provisioning', 'failed', 'provision-error', { phase: 'provision', outcome: 'cancelled' }],
    ['provisioning', 'cleaning', 'release', { phase: 'provision', outcome: 'cancelled' }],
    ['starting', 'failed', 'prerequisite-missing', { phase: 'start', outcome: 'cancelled' }],
    ['starting', 'quarantined', 'quarantine', { phase: 'start', outcome: 'cancelled' }],
  ])('leaves a sample when it changes from %s to %s by %s', ([from, to, by, sample]) => {
    for (const hadRegistered of [true, false]) expect(sampleOf(from, to, by, hadRegistered)).toEqual(sample);
  });

  test('leaves a sample with the outcome late if the machine registers after it failed', () => {
    expect(unregistered('failed', 'starting', 'late-registration')).toEqual({ phase: 'provision', outcome: 'late' });
  });

  test('leaves no second sample if the machine had registered and failed during start-up', () => {
    expect(registered('failed', 'starting', 'late-registration')).toBeUndefined();
  });
});

test('samples every change that leaves a phase, and no other change', () => {
  const leavesPhase = (edge: Edge<NodeStatus>) => edge.from === 'provisioning' || edge.from === 'starting';
  for (const edge of nodeEdges)
    for (const by of edge.by) {
      if (by === 'late-registration') continue;
      const sample = registered(edge.from, edge.to, by);
      expect(sample !== undefined, `${edge.from} → ${edge.to} by ${by}`).toBe(leavesPhase(edge));
      // Only a rule times a boot out.
      if (sample?.outcome === 'timed_out') expect(causes[by].trigger).toBe('rule');
    }
});
