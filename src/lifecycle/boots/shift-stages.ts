/** Finds the stages that make boots slower than before. */
import { medianOf, slownessOf } from './boot-shift.ts';
import type { TimedStage } from './slow-stages.ts';
import type { TimedBoot } from './survival.ts';

export interface SlowerStage {
  stage: string;
  /** Zero if most former boots skipped the stage, for example because it is new. */
  former_seconds: number;
  slower_seconds: number;
}

type Stages = readonly TimedStage[];

/** A stage is named if it adds at least this share of the slowdown. */
const minNamedShare = 0.3;
/**
 * A stage counts as slower from this many standard errors on. Fewer are required than in
 * boot-shift.ts, because far fewer tests are made.
 */
const minStandardErrors = 3;
/** A sub-stage that adds this share of its parent's slowdown is named instead of the parent. */
const parentShare = 0.7;

interface StageTimes {
  name: string;
  parent: string;
  former: TimedBoot[];
  slower: TimedBoot[];
}

function groupByStage(former: readonly Stages[], slower: readonly Stages[]): StageTimes[] {
  const byStage = new Map<string, StageTimes>();
  const add = (boots: readonly Stages[], side: 'former' | 'slower') => {
    for (const { name, parent = '', seconds } of boots.flat()) {
      const key = JSON.stringify([parent, name]);
      const times = byStage.get(key) ?? { name, parent, former: [], slower: [] };
      byStage.set(key, times);
      times[side].push({ seconds, outcome: 'completed' });
    }
  };
  add(former, 'former');
  add(slower, 'slower');
  return [...byStage.values()];
}

/** Adds a zero for each boot that skips the stage, because such a boot spends no time in it. */
const padWithZeros = (times: TimedBoot[], boots: number): TimedBoot[] => [
  ...times,
  ...Array.from({ length: Math.max(0, boots - times.length) }, () => ({ seconds: 0, outcome: 'completed' as const })),
];

/**
 * The stages that each add at least the share `minNamedShare` of `added_seconds`, largest slowdown
 * first; empty if none does. Ignores boots without stages.
 */
export function findSlowerStages(
  formerBoots: readonly Stages[],
  slowerBoots: readonly Stages[],
  added_seconds: number,
): SlowerStage[] {
  const [former, slower] = [formerBoots, slowerBoots].map((boots) => boots.filter((stages) => stages.length > 0)) as [
    Stages[],
    Stages[],
  ];
  if (former.length === 0 || slower.length === 0) return [];
  const candidates = groupByStage(former, slower).flatMap((times) => {
    const sides = [padWithZeros(times.former, former.length), padWithZeros(times.slower, slower.length)] as const;
    const [former_seconds, slower_seconds] = sides.map(medianOf) as [number, number];
    const slowdown = slower_seconds - former_seconds;
    if (slowdown < minNamedShare * added_seconds || slownessOf(...sides) < minStandardErrors) return [];
    return [{ ...times, former_seconds, slower_seconds, slowdown }];
  });
  return candidates
    .filter(
      ({ name, slowdown }) =>
        !candidates.some((part) => part.parent === name && part.slowdown >= parentShare * slowdown),
    )
    .sort((one, other) => other.slowdown - one.slowdown || (one.name < other.name ? -1 : 1))
    .map(({ name, former_seconds, slower_seconds }) => ({ stage: name, former_seconds, slower_seconds }));
}
