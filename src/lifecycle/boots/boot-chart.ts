/** Where each stage of a boot stands on one axis of seconds: the data of a Gantt chart. Pure. */

export interface ChartedStage {
  name: string;
  seconds: number;
  parent?: string | undefined;
  started_at?: string | undefined;
  /** How far into the boot it began, where somebody told. */
  starts_seconds?: number | undefined;
}

/**
 * Seconds from the first start, in the order of the stages. One that does not say when it began follows the one before it with the
 * same parent, or begins with its parent; a parent that nobody told of, as in cloud-init's reports, is no place to begin at.
 */
export function stageStarts(stages: readonly ChartedStage[]): number[] {
  const stamps = stages.map((stage) => (stage.started_at ? Date.parse(stage.started_at) : Number.NaN));
  const first = Math.min(...stamps.filter((stamp) => !Number.isNaN(stamp)));
  const told = new Set(stages.map(({ name }) => name));
  const free = new Map<string | undefined, number>([[undefined, 0]]);
  const began = new Map<string, number>();
  return stages.map((stage, at) => {
    const stamp = stamps[at] ?? Number.NaN;
    const parent = stage.parent !== undefined && told.has(stage.parent) ? stage.parent : undefined;
    const follows = free.get(parent) ?? began.get(parent ?? '') ?? 0;
    const from = stage.starts_seconds ?? (Number.isNaN(stamp) ? follows : (stamp - first) / 1000);
    free.set(parent, from + stage.seconds);
    began.set(stage.name, from);
    return from;
  });
}
