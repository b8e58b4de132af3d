/** What made a boot long, told beside the explanation of a machine. Pure. */

export interface TimedStage {
  name: string;
  seconds: number;
  parent?: string | undefined;
}

const slowFactor = 2;
const slowShare = 0.25;
const worthNamingSeconds = 1;

export interface SlowStage {
  name: string;
  seconds: number;
  /** What the stage usually takes in this pool, where that is known. */
  usual_seconds: number | null;
  says: string;
}

const took = (seconds: number) => `${Math.round(seconds * 10) / 10} s`;

/**
 * The stages that made a boot long: slower than the pool knows them, or, where nothing is known, a large part of the whole.
 */
export function slowStages(stages: readonly TimedStage[], usual: ReadonlyMap<string, number>): SlowStage[] {
  // A report may name only the parts of a stage and not the stage itself, as cloud-init's does.
  const told = new Set(stages.map((stage) => stage.name));
  const outermost = stages.filter(({ parent }) => parent === undefined || !told.has(parent));
  const whole = outermost.reduce((sum, stage) => sum + stage.seconds, 0);
  const found = stages.flatMap((stage): SlowStage[] => {
    const expected = usual.get(stage.name);
    if (stage.seconds < worthNamingSeconds) return [];
    if (expected !== undefined)
      return stage.seconds > slowFactor * expected
        ? [
            {
              name: stage.name,
              seconds: stage.seconds,
              usual_seconds: expected,
              says: `${stage.name} took ${took(stage.seconds)}, usually ${took(expected)}`,
            },
          ]
        : [];
    return stage.seconds > slowShare * whole
      ? [
          {
            name: stage.name,
            seconds: stage.seconds,
            usual_seconds: null,
            says: `${stage.name} took ${took(stage.seconds)} of ${took(whole)}`,
          },
        ]
      : [];
  });
  return found.sort((a, b) => b.seconds - a.seconds);
}
