/** Places boot stages on one scale. Pure. Stages that do not say when they began follow one another. */
import type { BootStage } from '../../../src/contract/node.ts';

export interface StageBar {
  name: string;
  parent: string | undefined;
  seconds: number;
  depth: number;
  from_percent: number;
  width_percent: number;
}

const narrowestPercent = 0.4;

export function placeStages(stages: BootStage[]): { bars: StageBar[]; total_seconds: number } {
  const starts = startsOf(stages);
  const placed = stages.map((stage, at) => ({ stage, from: starts[at] ?? 0 }));
  const total = Math.max(...placed.map(({ stage, from }) => from + stage.seconds), 0);
  const scale = total > 0 ? 100 / total : 0;
  const bars = placed.map(({ stage, from }) => ({
    name: stage.name,
    parent: stage.parent,
    seconds: stage.seconds,
    depth: depthOf(stage, stages),
    from_percent: Math.min(from * scale, 100 - narrowestPercent),
    width_percent: Math.max(stage.seconds * scale, narrowestPercent),
  }));
  return { bars, total_seconds: total };
}

/** Seconds from the first start. A nested stage without a start begins where its parent or its elder sibling leaves room. */
function startsOf(stages: BootStage[]): number[] {
  const stamps = stages.map((stage) => (stage.started_at ? Date.parse(stage.started_at) : Number.NaN));
  const first = Math.min(...stamps.filter((stamp) => !Number.isNaN(stamp)));
  const free = new Map<string | undefined, number>([[undefined, 0]]);
  const began = new Map<string, number>();
  return stages.map((stage, at) => {
    const stamp = stamps[at] ?? Number.NaN;
    const follows = free.get(stage.parent) ?? (stage.parent === undefined ? 0 : (began.get(stage.parent) ?? 0));
    const from = Number.isNaN(stamp) ? follows : (stamp - first) / 1000;
    free.set(stage.parent, from + stage.seconds);
    began.set(stage.name, from);
    return from;
  });
}

function depthOf(stage: BootStage, stages: BootStage[]): number {
  let depth = 0;
  let parent = stage.parent;
  // Bounded by the number of stages, because a machine may well claim to be its own grandfather.
  while (parent !== undefined && depth < stages.length) {
    depth++;
    const name: string = parent;
    parent = stages.find((other) => other.name === name)?.parent;
  }
  return Math.min(depth, 4);
}
