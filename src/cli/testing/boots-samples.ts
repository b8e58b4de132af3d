/** Samples of recorded boots for tests: 39 quick boots, a slow healthy one and a stuck one. */
import type { BootPhase, BootSample, PoolBoots, WhatIf } from '../../contract/supervision/boots.ts';
import { bandedCompletion, estimateSurvival } from '../../lifecycle/boots/survival.ts';
import { falseKillShare } from '../../lifecycle/boots/what-if.ts';
import { sampleIds } from './samples.ts';

const at = (minute: number) => `2026-01-01T12:${String(minute).padStart(2, '0')}:00.000Z`;

export const sampleBoot = (seconds: number, fields: Partial<BootSample> = {}): BootSample => ({
  node_id: 'node_quick',
  node_instance_id: `inst_${seconds}`,
  seconds,
  outcome: 'completed',
  lateness_seconds: null,
  budget_seconds: 720,
  at: at(1),
  ...fields,
});

/** A slow boot that is healthy: it takes 423 s, and the budget is 720 s. */
export const slowHealthyBoot = sampleBoot(423, { node_id: sampleIds.node_id, at: at(5) });
export const stuckBoot = sampleBoot(720, { node_id: 'node_stuck', outcome: 'timed_out', at: at(3) });

const samples: BootSample[] = [
  slowHealthyBoot,
  stuckBoot,
  ...Array.from({ length: 39 }, (_, i) => sampleBoot(150 + 4 * i)),
];
const steps = estimateSurvival(samples);
const survival = [
  { seconds: 0, share: 1, low: 1, high: 1 },
  ...steps.map(({ seconds, share, low, high }) => ({ seconds, share, low, high })),
];
const bandOf = (quantile: number) => {
  const { low, high } = bandedCompletion(steps, quantile);
  return { low_seconds: low, high_seconds: high };
};

export const sampleBootPhase = (fields: Partial<BootPhase> = {}): BootPhase => ({
  phase: 'provision',
  budget_seconds: 720,
  budget_source: 'pool',
  rescue_seconds: 360,
  policy: 'fixed',
  learning: null,
  p50_seconds: 226,
  p90_seconds: 294,
  p99_seconds: 423,
  bands: { p50: bandOf(0.5), p90: bandOf(0.9), p99: bandOf(0.99) },
  predicted_false_kill_share: falseKillShare(survival, 720),
  since_change: { at: at(0), boots: 41, late: 0, killed: 1 },
  running: 2,
  survival,
  samples,
  ...fields,
});

/** A phase without a recorded boot. */
export const emptyBootPhase: BootPhase = sampleBootPhase({
  phase: 'start',
  budget_seconds: 120,
  budget_source: 'default',
  ...{ p50_seconds: null, p90_seconds: null, p99_seconds: null, predicted_false_kill_share: null },
  since_change: { at: at(0), boots: 0, late: 0, killed: 0 },
  running: 0,
  survival: [],
  samples: [],
});

export const sampleLearning = (fields: Partial<NonNullable<BootPhase['learning']>> = {}): BootPhase['learning'] => ({
  aim_seconds: 635,
  because:
    "of 40 completed boots of the pool's current image and spec, the slowest took 423 s; plus a margin of 50 % that is 635 s",
  stratum: 'make',
  completions: 40,
  considered_at: at(9),
  frozen: null,
  ...fields,
});

export const samplePoolBoots = (fields: Partial<PoolBoots> = {}): PoolBoots => ({
  pool: 'gpu',
  make: { generation: 3, since: at(0), image: 'registry.example/gpu:7' },
  phases: [sampleBootPhase(), emptyBootPhase],
  ...fields,
});

/** The answer for a proposed budget of 400 s. */
export const sampleWhatIf = (fields: Partial<WhatIf> = {}): WhatIf => ({
  pool: 'gpu',
  phase: 'provision',
  budget_seconds: 400,
  rescue_seconds: 360,
  boots: 41,
  arrived_count: 40,
  oldest_at: at(1),
  false_kills: [{ ...slowHealthyBoot, over_seconds: 23, rescued: true }],
  false_kill_count: 1,
  rescued_count: 1,
  stuck: [{ ...stuckBoot, sooner_seconds: 320 }],
  stuck_count: 1,
  stuck_found_sooner_seconds: 320,
  undecided_count: 0,
  predicted_false_kill_share: 0.025,
  current: { budget_seconds: 720, budget_source: 'pool', false_kill_count: 0 },
  ...fields,
});
