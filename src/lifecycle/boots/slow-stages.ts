/** Finds the stages that made one boot slow, for its explanation. */

export interface TimedStage {
  name: string;
  seconds: number;
  parent?: string | undefined;
}

const slowFactor = 2;
const slowShare = 0.25;
const minNamedSeconds = 1;

export interface SlowStage {
  name: string;
  seconds: number;
  /** The usual duration in this pool, if known. */
  usual_seconds: number | null;
  says: string;
}

const formatTenths = (seconds: number) => `${Math.round(seconds * 10) / 10} s`;

/**
 * The stages of at least a second that took more than twice their usual time or, if that is
 * unknown, more than a quarter of the boot.
 */
export function findSlowStages(stages: readonly TimedStage[], usual: ReadonlyMap<string, number>): SlowStage[] {
  // A report may name sub-stages without their parent, as cloud-init does.
  const reportedNames = new Set(stages.map((stage) => stage.name));
  const outermost = stages.filter(({ parent }) => parent === undefined || !reportedNames.has(parent));
  const bootSeconds = outermost.reduce((sum, stage) => sum + stage.seconds, 0);
  const slow = stages.flatMap((stage): SlowStage[] => {
    const expected = usual.get(stage.name);
    if (stage.seconds < minNamedSeconds) return [];
    if (expected !== undefined)
      return stage.seconds > slowFactor * expected
        ? [
            {
              name: stage.name,
              seconds: stage.seconds,
              usual_seconds: expected,
              says: `${stage.name} took ${formatTenths(stage.seconds)}, usually ${formatTenths(expected)}`,
            },
          ]
        : [];
    return stage.seconds > slowShare * bootSeconds
      ? [
          {
            name: stage.name,
            seconds: stage.seconds,
            usual_seconds: null,
            says: `${stage.name} took ${formatTenths(stage.seconds)} of ${formatTenths(bootSeconds)}`,
          },
        ]
      : [];
  });
  return slow.sort((a, b) => b.seconds - a.seconds);
}
