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
 * The start of each stage in seconds. A reported `starts_seconds` is taken as it is; a reported
 * `started_at` counts from the earliest one. A stage without a start time follows its predecessor
 * with the same parent, or starts with its parent. A parent that is not reported itself, as in
 * cloud-init's reports, is ignored.
 */
export function computeStageStarts(stages: readonly ChartedStage[]): number[] {
  const stamps = stages.map((stage) => (stage.started_at ? Date.parse(stage.started_at) : Number.NaN));
  const first = Math.min(...stamps.filter((stamp) => !Number.isNaN(stamp)));
  const reportedNames = new Set(stages.map(({ name }) => name));
  const nextStart = new Map<string | undefined, number>([[undefined, 0]]);
  const startByName = new Map<string, number>();
  return stages.map((stage, at) => {
    const stamp = stamps[at] ?? Number.NaN;
    const parent = stage.parent !== undefined && reportedNames.has(stage.parent) ? stage.parent : undefined;
    const defaultStart = nextStart.get(parent) ?? startByName.get(parent ?? '') ?? 0;
    const start = stage.starts_seconds ?? (Number.isNaN(stamp) ? defaultStart : (stamp - first) / 1000);
    nextStart.set(parent, start + stage.seconds);
    startByName.set(stage.name, start);
    return start;
  });
}
