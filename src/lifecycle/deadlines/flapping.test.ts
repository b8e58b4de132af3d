/** Simulates second by second a machine whose heartbeats come about one stale time apart. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { effectOfBeat } from '../model/reports.ts';
import type { NodeStatus } from '../model/states.ts';
import { effectiveStaleSeconds } from './heartbeat-policy.ts';
import { judgeLiveness } from './liveness.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);

interface HeartbeatPattern {
  stale: number;
  /** Seconds between heartbeats. */
  gaps: number[];
  /** Seconds at which the machine answers a probe. */
  probes: ReadonlySet<number>;
}

/** Runs the simulation and returns all status changes with their times. */
function simulate({ stale, gaps, probes }: HeartbeatPattern): { second: number; to: NodeStatus }[] {
  const beats = new Set<number>();
  const end = gaps.reduce((sum, gap) => {
    beats.add(sum + gap);
    return sum + gap;
  }, 0);
  const node = {
    status: 'ready' as NodeStatus,
    status_since: at(-10 * stale),
    verdict: null as { rule: string; from: NodeStatus } | null,
    last_seen_at: at(0),
    probe_ok_at: null as Date | null,
  };
  const changes: { second: number; to: NodeStatus }[] = [];
  const move = (second: number, to: NodeStatus, rule: string | null) => {
    Object.assign(node, { verdict: rule && { rule, from: node.status }, status: to, status_since: at(second) });
    changes.push({ second, to });
  };
  for (let second = 1; second <= end; second++) {
    if (probes.has(second)) node.probe_ok_at = at(second);
    if (beats.has(second)) {
      node.last_seen_at = at(second);
      const reportingNode = {
        ...node,
        deadline_at: null,
        registered_at: at(-100),
        reported_status: 'ready',
        prerequisites: null,
      };
      const change = effectOfBeat({ ...reportingNode, stale_seconds: stale }, {}, at(second));
      if (change) move(second, change.to, null);
    }
    if (node.status === 'offline') continue;
    const { verdict } = judgeLiveness({ ...node, stale_seconds: stale, gap_end: null }, at(second), at(second));
    if (verdict === 'offline' || verdict === 'degraded') move(second, verdict, 'liveness');
  }
  return changes;
}

const patterns: fc.Arbitrary<HeartbeatPattern> = fc.integer({ min: 6, max: 40 }).chain((stale) =>
  fc.record({
    stale: fc.constant(stale),
    gaps: fc.array(fc.integer({ min: 1, max: 2 * stale }), { minLength: 1, maxLength: 30 }),
    probes: fc.oneof(
      fc.constant(new Set<number>()),
      fc.array(fc.integer({ min: 1, max: 30 * stale }), { maxLength: 60 }).map((seconds) => new Set(seconds)),
    ),
  }),
);

test('a machine changes its status at most once per stale time', () => {
  fc.assert(
    fc.property(patterns, (pattern) => {
      const changes = simulate(pattern);
      for (const [i, { second }] of changes.entries())
        if (i > 0) expect(second - (changes[i - 1]?.second ?? 0)).toBeGreaterThanOrEqual(pattern.stale);
    }),
    { numRuns: 300 },
  );
});

test('a silent machine is offline, and returns with its next heartbeat', () => {
  const stale = 30;
  expect(simulate({ stale, gaps: [10, 100], probes: new Set() })).toEqual([
    { second: 10 + stale + 1, to: 'offline' },
    { second: 110, to: 'ready' },
  ]);
});

test('a silent machine is degraded while it answers probes, and offline after that', () => {
  const stale = 30;
  expect(simulate({ stale, gaps: [10, 200], probes: new Set([20, 35, 60]) })).toEqual([
    { second: 10 + stale + 1, to: 'degraded' },
    { second: 60 + stale + 1, to: 'offline' },
    { second: 210, to: 'ready' },
  ]);
});

test('a machine is never offline after one missed heartbeat', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 60 }),
      fc.nat({ max: 20 }),
      (interval, set, missed) => {
        const stale = effectiveStaleSeconds(set, interval);
        const gaps = Array.from({ length: 20 }, (_, i) => (i === missed ? 2 * interval : interval));
        expect(simulate({ stale, gaps, probes: new Set() })).toEqual([]);
      },
    ),
    { numRuns: 200 },
  );
});
