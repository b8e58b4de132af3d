/** Places the stages of a boot on one time axis, for a Gantt chart. */

export interface ChartedStage {
  name: string;
  seconds: number;
  parent?: string | undefined;
  started_at?: string | undefined;
  /** Seconds from the start of the boot, if reported. */
  starts_seconds?: number | undefined;
}

/**
 * The start of each stage, in seconds from the first one. A stage without a start time follows its
 * predecessor with the same parent, or starts with its parent. A parent that is not reported
 * itself, as in cloud-init's reports, is ignored.
 */
export function stageStarts(stages: readonly ChartedStage[]): number[] {
  const stamps = stages.map((stage) => (stage.started_at ? Date.parse(stage.started_at) : Number.NaN));
  const first = Math.min(...stamps.filter((stamp) => !Number.isNaN(stamp)));
  const reportedNames = new Set(stages.map(({ name }) => name));
  const free = new Map<string | undefined, number>([[undefined, 0]]);
  const began = new Map<string, number>();
  return stages.map((stage, at) => {
    const stamp = stamps[at] ?? Number.NaN;
    const parent = stage.parent !== undefined && reportedNames.has(stage.parent) ? stage.parent : undefined;
    const follows = free.get(parent) ?? began.get(parent ?? '') ?? 0;
    const from = stage.starts_seconds ?? (Number.isNaN(stamp) ? follows : (stamp - first) / 1000);
    free.set(parent, from + stage.seconds);
    began.set(stage.name, from);
    return from;
  });
}
