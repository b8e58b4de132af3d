/**
 * Tests which heartbeats are written before the reply: all that change a status, and few others.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Beat,
  type CachedNode,
  effectOfBeat,
  needsImmediateWrite,
  type Prerequisites,
  type ReportingNode,
  reportedStatuses,
} from './reports.ts';
import { type NodeStatus, nodeStatusNames } from './states.ts';
import { findEdge, nodeEdges } from './transitions.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const now = at(0);

const rates = fc.constantFrom(0, 0.05, 0.1, 0.3, 0.5, 1);
const moments = fc.integer({ min: -100, max: 100 }).map(at);
const nodes: fc.Arbitrary<ReportingNode> = fc.record({
  status: fc.constantFrom(...nodeStatusNames),
  status_since: moments,
  deadline_at: fc.option(moments),
  registered_at: fc.option(moments),
  reported_status: fc.option(fc.constantFrom<string>(...reportedStatuses)),
  verdict: fc.option(
    fc.record({
      rule: fc.constantFrom('liveness', 'goodbye', 'degraded', 'stuck-starting'),
      from: fc.constantFrom<NodeStatus | undefined>('ready', 'degraded', undefined),
    }),
  ),
  prerequisites: fc.constantFrom<Prerequisites>(null, 'met', 'unchecked', 'missing'),
  stale_seconds: fc.integer({ min: 1, max: 100 }),
});
const beats: fc.Arbitrary<Beat> = fc.record(
  { status: fc.constantFrom(...reportedStatuses), error_rate: rates },
  { requiredKeys: [] },
);
const cached = (node: ReportingNode): CachedNode => ({
  node_status: node.status,
  reported_status: node.reported_status,
  verdict_rule: node.verdict?.rule ?? null,
  boot_stage: null,
});

test('a heartbeat only causes changes of the transition table and never reverts a verdict', () => {
  fc.assert(
    fc.property(nodes, beats, (node, beat) => {
      const change = effectOfBeat(node, beat, now);
      if (!change) return;
      expect(findEdge(nodeEdges, node.status, change.to, change.by)).toBeDefined();
      if (change.to === 'starting') expect(node.status).toBe('failed');
      if (node.status === 'ready') expect(beat).not.toEqual({ status: 'starting' });
      if (change.to === 'ready') expect(beat.status ?? node.reported_status).not.toBe('degraded');
      expect(change.reason).not.toBe('');
    }),
    { numRuns: 1500 },
  );
});

describe('a heartbeat is written before the reply', () => {
  test('when it changes a status', () => {
    fc.assert(
      fc.property(nodes, beats, (node, beat) => {
        if (effectOfBeat(node, beat, now)) expect(needsImmediateWrite(cached(node), beat)).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  const known = (node_status: NodeStatus, overrides: Partial<CachedNode> = {}): CachedNode => ({
    node_status,
    reported_status: 'ready',
    verdict_rule: null,
    boot_stage: 'setup',
    ...overrides,
  });

  test('when it reports another status than before', () => {
    for (const status of nodeStatusNames) {
      expect(needsImmediateWrite(known(status), { status: 'degraded' })).toBe(true);
      expect(needsImmediateWrite(known(status, { reported_status: null }), { status: 'ready' })).toBe(true);
    }
  });

  test('when a starting node reports a new boot stage, but not a repeated one', () => {
    const starting = known('starting', { reported_status: 'starting' });
    expect(needsImmediateWrite(starting, { status: 'starting', boot_stage: 'image-pull' })).toBe(true);
    expect(needsImmediateWrite(starting, { status: 'starting', boot_stage: 'setup' })).toBe(false);
    expect(needsImmediateWrite(known('ready'), { status: 'ready', boot_stage: 'image-pull' })).toBe(false);
  });

  test('when a silent node may return', () => {
    expect(needsImmediateWrite(known('degraded', { verdict_rule: 'liveness' }), {})).toBe(true);
    for (const status of ['offline', 'failed'] as const)
      expect(needsImmediateWrite(known(status), {}), status).toBe(true);
  });

  test('when it says goodbye, even if the last report was a goodbye', () => {
    for (const status of ['ready', 'degraded'] as const)
      expect(needsImmediateWrite(known(status, { reported_status: 'stopping' }), { status: 'stopping' }), status).toBe(
        true,
      );
  });

  test('only when it can change a status or reports something new', () => {
    expect(needsImmediateWrite(known('ready'), {})).toBe(false);
    expect(needsImmediateWrite(known('ready'), { status: 'ready', error_rate: 0.49 })).toBe(false);
    expect(needsImmediateWrite(known('starting', { reported_status: 'starting' }), { status: 'starting' })).toBe(false);
    expect(needsImmediateWrite(known('degraded'), {})).toBe(false);
    expect(needsImmediateWrite(known('degraded'), { status: 'ready' })).toBe(true);
    expect(needsImmediateWrite(known('degraded'), { status: 'ready', error_rate: 0.1 })).toBe(false);
    expect(needsImmediateWrite(known('degraded', { verdict_rule: 'liveness' }), { error_rate: 0.5 })).toBe(false);
    for (const status of ['provisioning', 'draining', 'cleaning', 'quarantined', 'retired'] as const)
      expect(needsImmediateWrite(known(status), { status: 'ready', error_rate: 1 }), status).toBe(false);
  });
});
