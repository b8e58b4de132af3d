/** Which beats must be durable before they are answered: all that change a status, and few others. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Beat,
  type Claim,
  type ClaimingNode,
  effectOfBeat,
  isNews,
  type Prerequisites,
  type RememberedNode,
} from './reports.ts';
import { type NodeStatus, nodeStatusNames } from './states.ts';
import { findEdge, nodeEdges } from './transitions.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const now = at(0);
const claims: Claim[] = ['starting', 'ready', 'degraded', 'stopping'];

const rates = fc.constantFrom(0, 0.05, 0.1, 0.3, 0.5, 1);
const moments = fc.integer({ min: -100, max: 100 }).map(at);
const nodes: fc.Arbitrary<ClaimingNode> = fc.record({
  status: fc.constantFrom(...nodeStatusNames),
  status_since: moments,
  deadline_at: fc.option(moments),
  registered_at: fc.option(moments),
  reported_status: fc.option(fc.constantFrom<string>(...claims)),
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
  { status: fc.constantFrom(...claims), error_rate: rates },
  { requiredKeys: [] },
);
const remembered = (node: ClaimingNode): RememberedNode => ({
  node_status: node.status,
  reported_status: node.reported_status,
  verdict_rule: node.verdict?.rule ?? null,
  boot_stage: null,
});

test('whatever a beat does is an edge of the table, and never goes back past a verdict', () => {
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

describe('a beat is written before it is answered', () => {
  test('whenever it changes a status', () => {
    fc.assert(
      fc.property(nodes, beats, (node, beat) => {
        if (effectOfBeat(node, beat, now)) expect(isNews(remembered(node), beat)).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  const known = (node_status: NodeStatus, over: Partial<RememberedNode> = {}): RememberedNode => ({
    node_status,
    reported_status: 'ready',
    verdict_rule: null,
    boot_stage: 'setup',
    ...over,
  });

  test('when it claims something else than before', () => {
    for (const status of nodeStatusNames) {
      expect(isNews(known(status), { status: 'degraded' })).toBe(true);
      expect(isNews(known(status, { reported_status: null }), { status: 'ready' })).toBe(true);
    }
  });

  test('when a starting node names a new boot stage; repetition is no advance', () => {
    const starting = known('starting', { reported_status: 'starting' });
    expect(isNews(starting, { status: 'starting', boot_stage: 'image-pull' })).toBe(true);
    expect(isNews(starting, { status: 'starting', boot_stage: 'setup' })).toBe(false);
    expect(isNews(known('ready'), { status: 'ready', boot_stage: 'image-pull' })).toBe(false);
  });

  test('when it may bring back a node that was silent, whatever it says', () => {
    expect(isNews(known('degraded', { verdict_rule: 'liveness' }), {})).toBe(true);
    for (const status of ['offline', 'failed'] as const) expect(isNews(known(status), {}), status).toBe(true);
  });

  test('when it says goodbye, also for the second time', () => {
    for (const status of ['ready', 'degraded'] as const)
      expect(isNews(known(status, { reported_status: 'stopping' }), { status: 'stopping' }), status).toBe(true);
  });

  test('and a plain one is not: it costs no query', () => {
    expect(isNews(known('ready'), {})).toBe(false);
    expect(isNews(known('ready'), { status: 'ready', error_rate: 0.49 })).toBe(false);
    expect(isNews(known('starting', { reported_status: 'starting' }), { status: 'starting' })).toBe(false);
    expect(isNews(known('degraded'), {})).toBe(false);
    expect(isNews(known('degraded'), { status: 'ready' })).toBe(true);
    expect(isNews(known('degraded'), { status: 'ready', error_rate: 0.1 })).toBe(false);
    expect(isNews(known('degraded', { verdict_rule: 'liveness' }), { error_rate: 0.5 })).toBe(false);
    for (const status of ['provisioning', 'draining', 'cleaning', 'quarantined', 'retired'] as const)
      expect(isNews(known(status), { status: 'ready', error_rate: 1 }), status).toBe(false);
  });
});
