/** Finds the stages that make boots slower than before. */
import { medianOf, slownessOf } from './boot-shift.ts';
import type { TimedStage } from './slow-stages.ts';
import type { TimedBoot } from './survival.ts';

export interface SlowerStage {
  stage: string;
  /** Zero if the stage is new. */
  former_seconds: number;
  slower_seconds: number;
}

type Stages = readonly TimedStage[];

/** A stage is named if it adds at least this share of the slowdown. */
const worthNaming = 0.3;
/** In standard errors; lower than for boots, because a boot has only a few stages. */
const surelySlower = 3;
/** A sub-stage that adds this share of its parent's slowdown is named instead of the parent. */
const mostOfTheWhole = 0.7;

interface Timed {
  name: string;
  parent: string;
  former: TimedBoot[];
  slower: TimedBoot[];
}

function gather(former: readonly Stages[], slower: readonly Stages[]): Timed[] {
  const found = new Map<string, Timed>();
  const note = (boots: readonly Stages[], side: 'former' | 'slower') => {
    for (const { name, parent = '', seconds } of boots.flat()) {
      const key = JSON.stringify([parent, name]);
      const timed = found.get(key) ?? { name, parent, former: [], slower: [] };
      found.set(key, timed);
      timed[side].push({ seconds, outcome: 'completed' });
    }
  };
  note(former, 'former');
  note(slower, 'slower');
  return [...found.values()];
}

/** A boot that skips a stage spends no time in it. */
const withSkipped = (timed: TimedBoot[], boots: number): TimedBoot[] => [
  ...timed,
  ...Array.from({ length: Math.max(0, boots - timed.length) }, () => ({ seconds: 0, outcome: 'completed' as const })),
];

/**
 * Largest slowdown first; empty if the reported stages do not explain it. Ignores boots without
 * stages.
 */
export function slowerStages(
  before: readonly Stages[],
  since: readonly Stages[],
  added_seconds: number,
): SlowerStage[] {
  const [former, slower] = [before, since].map((boots) => boots.filter((stages) => stages.length > 0)) as [
    Stages[],
    Stages[],
  ];
  if (former.length === 0 || slower.length === 0) return [];
  const grown = gather(former, slower).flatMap((timed) => {
    const sides = [withSkipped(timed.former, former.length), withSkipped(timed.slower, slower.length)] as const;
    const [former_seconds, slower_seconds] = sides.map(medianOf) as [number, number];
    const adds = slower_seconds - former_seconds;
    if (adds < worthNaming * added_seconds || slownessOf(...sides) < surelySlower) return [];
    return [{ ...timed, former_seconds, slower_seconds, adds }];
  });
  return grown
    .filter(({ name, adds }) => !grown.some((part) => part.parent === name && part.adds >= mostOfTheWhole * adds))
    .sort((one, other) => other.adds - one.adds || (one.name < other.name ? -1 : 1))
    .map(({ name, former_seconds, slower_seconds }) => ({ stage: name, former_seconds, slower_seconds }));
}
