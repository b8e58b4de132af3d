import { expect, it } from 'vitest';
import type { BootSample } from '../../../../src/contract/supervision/boots.ts';
import { estimateSurvival } from '../../../../src/lifecycle/boots/survival.ts';
import { headlineOf } from '../../../../src/lifecycle/boots/what-if-words.ts';
import { judge } from './what-if.ts';

const sample = (node_id: string, seconds: number, outcome: BootSample['outcome'] = 'completed'): BootSample => ({
  ...{ node_id, node_instance_id: `inst_${node_id}`, seconds, outcome },
  ...{ lateness_seconds: null, budget_seconds: 720, at: '2026-01-01T12:00:00.000Z' },
});

const phase = (samples: BootSample[], rescue_seconds: number) => ({
  ...{ phase: 'provision' as const, budget_seconds: 720, rescue_seconds, samples },
  survival: estimateSurvival(samples),
});

it('lists the slow healthy boot that a budget of 400 s would have given up', () => {
  const samples = [sample('slow', 423), sample('quick', 210), sample('stuck', 720, 'timed_out')];
  const judged = judge(phase(samples, 300), 400);
  expect(judged).toMatchObject({ boots: 3, false_kill_count: 1, rescued_count: 1, stuck_count: 1, undecided_count: 0 });
  expect(judged.false_kills).toEqual([{ ...sample('slow', 423), over_seconds: 23, rescued: true }]);
  expect(judged.stuck).toEqual([{ ...sample('stuck', 720, 'timed_out'), sooner_seconds: 320 }]);
  expect(judged.stuck_found_sooner_seconds).toBe(320);
  expect(judged.predicted_false_kill_share).toBeCloseTo(0.5);
  expect(judge(phase(samples, 300), 720).false_kills).toEqual([]);
});

it('counts no arrival if every boot is stuck, and predicts nothing', () => {
  const samples = [sample('one', 720, 'timed_out'), sample('two', 720, 'timed_out')];
  const judged = judge(phase(samples, 300), 400);
  expect(judged).toMatchObject({ boots: 2, arrived_count: 0, false_kill_count: 0, stuck_count: 2 });
  expect(judge(phase([...samples, sample('up', 100)], 300), 400).arrived_count).toBe(1);
  expect(headlineOf(judged)).toBe('With 400 s: unknown, because none of 2 boots on record arrived.');
});

it('a default rescue window follows the tried budget; an explicit one does not', () => {
  const samples = [sample('slow', 423)];
  expect(judge(phase(samples, 360), 200)).toMatchObject({ rescue_seconds: 100, rescued_count: 0 });
  expect(judge(phase(samples, 300), 200)).toMatchObject({ rescue_seconds: 300, rescued_count: 1 });
});
