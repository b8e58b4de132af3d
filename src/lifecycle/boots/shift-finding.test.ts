import { describe, expect, it } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import type { Shift } from './boot-shift.ts';
import { buildShiftSides, type ComparedBoot, renderShift } from './shift-finding.ts';
import { findSlowerStages } from './shift-stages.ts';
import type { TimedStage } from './slow-stages.ts';

const start = moment(Date.UTC(2026, 0, 7, 14));

/** Boots that start one second apart, and each take a second longer than the one before. */
const boots = (prefix: string, count: number, seconds: number, overrides: Partial<ComparedBoot> = {}): ComparedBoot[] =>
  Array.from({ length: count }, (_, place) => ({
    started_at: secondsLater(start, place),
    seconds: seconds + place,
    outcome: 'completed',
    node_id: `node_${prefix}${place}`,
    node_instance_id: `inst_${prefix}${place}`,
    pool_generation: 1,
    image: null,
    ...overrides,
  }));

const shift = (overrides: Partial<ComparedBoot> = {}, seconds = 500): Shift<ComparedBoot> => ({
  since: start,
  former: boots('f', 50, 380),
  slower: boots('s', 30, seconds, overrides),
  former_seconds: 400,
  slower_seconds: seconds + 20,
});

const stagesOf = (pull: (boot: ComparedBoot) => number, detected = shift()) =>
  new Map<string, TimedStage[]>(
    [...detected.former, ...detected.slower].map((boot) => [
      boot.node_instance_id,
      [
        { name: 'script', seconds: boot.seconds - 20 },
        { name: 'pull', parent: 'script', seconds: pull(boot) },
        { name: 'set-up', parent: 'script', seconds: boot.seconds - 20 - pull(boot) },
      ],
    ]),
  );
const isSlower = ({ node_id }: ComparedBoot) => node_id.startsWith('node_s');
const slowPull = stagesOf((boot) => (isSlower(boot) ? 220 : 100));
const budget = { seconds: 720, source: 'pool' } as const;
const textOf = (
  detected: Shift<ComparedBoot>,
  stages: ReadonlyMap<string, TimedStage[]> = slowPull,
  allowed: Parameters<typeof buildShiftSides>[3] = budget,
  phase: Parameters<typeof buildShiftSides>[2] = 'provision',
) => {
  const { ours, theirs } = buildShiftSides(detected, stages, phase, allowed);
  return renderShift(ours, theirs);
};

describe('the text about slower boots', () => {
  it('says how much slower, since when, and names the sub-stage rather than its parent', () => {
    expect(textOf(shift())).toBe(
      'boots take 1.3 times as long since 2026-01-07T14:00:00.000Z: median 520 s, before 400 s. ' +
        'The stage pull went from 100 s to 220 s (2.2 times as long). ' +
        'None of them has exceeded the budget of 720 s yet; the slowest took 529 s',
    );
  });
  it('says that no stages are reported, or that none explains the slowdown', () => {
    expect(textOf(shift(), new Map())).toContain('. The stage is unknown, because these boots report no stages. ');
    const spread = new Map(
      [...shift().former, ...shift().slower].map((boot) => [
        boot.node_instance_id,
        Array.from({ length: 5 }, (_, place) => ({ name: `part-${place}`, seconds: boot.seconds / 5 })),
      ]),
    );
    expect(textOf(shift(), spread)).toContain('. No reported stage explains the slowdown. ');
  });
  it('says how many boots exceed the budget at this pace', () => {
    expect(textOf(shift(), slowPull, { ...budget, seconds: 514.5 })).toContain(
      'At this pace 50 of 100 exceed the budget of 515 s and fail although they would arrive',
    );
    const { ours, theirs } = buildShiftSides(shift(), slowPull, 'provision', budget);
    expect(renderShift(ours, { ...theirs, past_budget_share: 0.004 })).toContain('fewer than 1 of 100 exceed');
  });
  it('names the generation and image if the pool changed when the boots became slower', () => {
    expect(textOf(shift({ pool_generation: 7, image: 'b' }))).toMatch(
      /The pool changed at that time: generation 7, image none → b$/,
    );
    expect(textOf(shift({ pool_generation: 7 }))).toMatch(/changed at that time: generation 7$/);
    const mixed = shift();
    const some = mixed.slower.map((boot, place) => ({ ...boot, pool_generation: place % 2 }));
    expect(textOf({ ...mixed, slower: some })).not.toContain('The pool changed');
  });
  it('speaks of registered machines in the start-up phase', () => {
    expect(textOf(shift(), slowPull, budget, 'start')).toMatch(
      /^machines that have registered take 1\.3 times as long to be ready since /,
    );
  });
});

describe('the stages that make boots slower', () => {
  const many = (...stages: TimedStage[]) => Array.from({ length: 30 }, () => stages);
  it('are those that add the most time, largest first', () => {
    const former = many({ name: 'a', seconds: 10 }, { name: 'b', seconds: 20 }, { name: 'c', seconds: 30 });
    const slower = many({ name: 'a', seconds: 60 }, { name: 'b', seconds: 120 }, { name: 'c', seconds: 31 });
    expect(findSlowerStages(former, slower, 151).map(({ stage }) => stage)).toEqual(['b', 'a']);
  });
  it('include a new stage, but not a removed one', () => {
    const [former, slower] = [many({ name: 'a', seconds: 10 }), many({ name: 'scan', seconds: 90 })];
    expect(findSlowerStages(former, slower, 80)).toEqual([{ stage: 'scan', former_seconds: 0, slower_seconds: 90 }]);
  });
  it('are empty if the boots on one side report no stages', () => {
    expect(findSlowerStages(many(), many({ name: 'a', seconds: 10 }), 5)).toEqual([]);
  });
});
