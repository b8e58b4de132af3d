/** Places boot stages on one time scale, with the pool's usual duration. Pure. */
import type { Boot } from '../../../../src/contract/node.ts';

type BootStage = Boot['stages'][number];

export interface StageBar {
  name: string;
  parent: string | undefined;
  seconds: number;
  depth: number;
  from_percent: number;
  width_percent: number;
  usual_seconds: number | null;
  /** The width of the bar at the usual duration, cut off at the end of the scale. */
  usual_percent: number | null;
}

const minWidthPercent = 0.4;

export function placeStages(stages: BootStage[]): { bars: StageBar[]; total_seconds: number } {
  const placed = stages.map((stage) => ({ stage, from: stage.starts_seconds }));
  const total = Math.max(...placed.map(({ stage, from }) => from + stage.seconds), 0);
  const scale = total > 0 ? 100 / total : 0;
  const bars = placed.map(({ stage, from }) => ({
    name: stage.name,
    parent: stage.parent,
    seconds: stage.seconds,
    depth: depthOf(stage, stages),
    from_percent: Math.min(from * scale, 100 - minWidthPercent),
    width_percent: Math.max(stage.seconds * scale, minWidthPercent),
    usual_seconds: stage.usual_seconds,
    usual_percent: stage.usual_seconds === null ? null : Math.min(stage.usual_seconds * scale, 100 - from * scale),
  }));
  return { bars, total_seconds: total };
}

function depthOf(stage: BootStage, stages: BootStage[]): number {
  let depth = 0;
  let parent = stage.parent;
  // Bounded by the number of stages: a machine may report a stage as its own ancestor.
  while (parent !== undefined && depth < stages.length) {
    depth++;
    const name: string = parent;
    parent = stages.find((other) => other.name === name)?.parent;
  }
  return Math.min(depth, 4);
}
