/** Which stage makes boots slower than they were. Pure. */
import { medianOf, slownessOf } from './boot-shift.ts';
import type { TimedStage } from './slow-stages.ts';
import type { TimedBoot } from './survival.ts';

export interface SlowerStage {
  stage: string;
  /** Nothing, where the stage was not there before. */
  former_seconds: number;
  slower_seconds: number;
}

type Stages = readonly TimedStage[];

/** It takes this much of what boots have become slower by to be named. */
const worthNaming = 0.3;
/** In standard errors, over the few stages of a boot. */
const surelySlower = 3;
/** A part that adds so much of what its whole adds is named in its place. */
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

/** In a boot that skips it, a stage takes no time. */
const withSkipped = (timed: TimedBoot[], boots: number): TimedBoot[] => [
  ...timed,
  ...Array.from({ length: Math.max(0, boots - timed.length) }, () => ({ seconds: 0, outcome: 'completed' as const })),
];

/** The one that adds most first; none, where what boots report does not explain it. Boots that report nothing are left out. */
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
