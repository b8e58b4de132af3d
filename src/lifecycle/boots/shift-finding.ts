/**
 * The finding that a pool's boots became slower: since when, in which stage, and how close to the
 * budget.
 */
import type { Budget } from '../deadlines/budgets.ts';
import type { SamplePhase } from './boot-samples.ts';
import type { DatedBoot, Shift } from './boot-shift.ts';
import { findSlowerStages, type SlowerStage } from './shift-stages.ts';
import type { TimedStage } from './slow-stages.ts';
import { estimateSurvival, hasArrived } from './survival.ts';
import { falseKillShare } from './what-if.ts';
import { formatSeconds } from './what-if-words.ts';

export interface ComparedBoot extends DatedBoot {
  node_id: string;
  node_instance_id: string;
  pool_generation: number;
  image: string | null;
}

/** The boots before the change. */
export interface FormerBoots {
  phase: SamplePhase;
  boots: number;
  median_seconds: number;
  /** Among those of these boots that arrive, the share that exceeds the current budget. */
  past_budget_share: number;
  budget_seconds: number;
  budget_source: string;
}

export interface SlowerBoots {
  since: string;
  boots: number;
  median_seconds: number;
  times_as_long: number;
  past_budget_share: number;
  slowest_seconds: number;
  /** Largest slowdown first. Null if no former boot, or no slower one, reports stages. */
  stages: SlowerStage[] | null;
  /** The new and the former generation, if the pool changed when the boots became slower. */
  generation: number | null;
  former_generation: number | null;
  image: string | null;
  former_image: string | null;
  slowest_boots: { at: string; node_id: string; node_instance_id: string; seconds: number }[];
}

const maxListed = 5;
/**
 * A new generation explains the change if at least this share of the slower boots belongs to the
 * new generation, and at least this share of the boots just before belongs to another one.
 */
const minGenerationShare = 0.8;

const roundToTenths = (value: number) => Math.round(value * 10) / 10;

function modeOf<T>(values: readonly T[]): { value: T | undefined; share: number } {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [value, count] = [...counts].reduce<[T | undefined, number]>(
    (most, each) => (each[1] > most[1] ? each : most),
    [undefined, 0],
  );
  return { value, share: values.length > 0 ? count / values.length : 0 };
}

/**
 * The generation that came with the slower boots, if one did. Compares with the boots right before
 * the change.
 */
function findGenerationChange({ former, slower }: Shift<ComparedBoot>) {
  const bootsJustBefore = former.slice(-slower.length);
  const [formerMode, slowerMode] = [bootsJustBefore, slower].map((boots) =>
    modeOf(boots.map((boot) => boot.pool_generation)),
  );
  const noChange = { generation: null, former_generation: null, image: null, former_image: null };
  if (!slowerMode || !formerMode || slowerMode.value === formerMode.value) return noChange;
  if (slowerMode.share < minGenerationShare || formerMode.share < minGenerationShare) return noChange;
  const image = slower.find((boot) => boot.pool_generation === slowerMode.value)?.image ?? null;
  const former_image = bootsJustBefore.find((boot) => boot.pool_generation === formerMode.value)?.image ?? null;
  return {
    generation: slowerMode.value ?? null,
    former_generation: formerMode.value ?? null,
    ...(image === former_image ? { image: null, former_image: null } : { image, former_image }),
  };
}

/**
 * The two sides of the finding: `ours` describes the former boots, `theirs` the slower ones.
 * `stages`: the reported stages by instance.
 */
export function buildShiftSides(
  shift: Shift<ComparedBoot>,
  stages: ReadonlyMap<string, readonly TimedStage[]>,
  phase: SamplePhase,
  budget: Pick<Budget, 'seconds' | 'source'>,
): { ours: FormerBoots; theirs: SlowerBoots } {
  const { former, slower, former_seconds, slower_seconds } = shift;
  const stagesReportedBy = (boots: readonly ComparedBoot[]) =>
    boots.filter(hasArrived).map(({ node_instance_id }) => stages.get(node_instance_id) ?? []);
  const reportedStages = [former, slower].map(stagesReportedBy) as [TimedStage[][], TimedStage[][]];
  const shareOverBudget = (boots: readonly ComparedBoot[]) =>
    falseKillShare(estimateSurvival(boots), budget.seconds)?.share ?? 0;
  const slowest = slower.filter(hasArrived).toSorted((one, other) => other.seconds - one.seconds);
  return {
    ours: {
      phase,
      boots: former.length,
      median_seconds: roundToTenths(former_seconds),
      past_budget_share: shareOverBudget(former),
      budget_seconds: budget.seconds,
      budget_source: budget.source,
    },
    theirs: {
      since: shift.since.toISOString(),
      boots: slower.length,
      median_seconds: roundToTenths(slower_seconds),
      times_as_long: roundToTenths(slower_seconds / former_seconds),
      past_budget_share: shareOverBudget(slower),
      slowest_seconds: roundToTenths(slowest[0]?.seconds ?? 0),
      stages: reportedStages.every((boots) => boots.some((each) => each.length > 0))
        ? findSlowerStages(...reportedStages, slower_seconds - former_seconds).map((each) => ({
            stage: each.stage,
            former_seconds: roundToTenths(each.former_seconds),
            slower_seconds: roundToTenths(each.slower_seconds),
          }))
        : null,
      ...findGenerationChange(shift),
      slowest_boots: slowest.slice(0, maxListed).map(({ started_at, node_id, node_instance_id, seconds }) => ({
        at: started_at.toISOString(),
        node_id,
        node_instance_id,
        seconds: roundToTenths(seconds),
      })),
    },
  };
}

const subjectWords: Record<SamplePhase, string> = {
  provision: 'boots take',
  start: 'machines that have registered take',
};
const asLongWords: Record<SamplePhase, string> = { provision: 'as long', start: 'as long to be ready' };

function stageWords({ stage, former_seconds, slower_seconds }: SlowerStage): string {
  if (former_seconds === 0) return `the stage ${stage} is new and takes ${formatSeconds(slower_seconds)}`;
  const times = roundToTenths(slower_seconds / former_seconds).toFixed(1);
  return `the stage ${stage} went from ${formatSeconds(former_seconds)} to ${formatSeconds(slower_seconds)} (${times} times as long)`;
}

function causeWords({ stages }: SlowerBoots): string {
  if (stages === null) return 'the stage is unknown, because these boots report no stages';
  return stages.length > 0 ? stages.map(stageWords).join('; ') : 'no reported stage explains the slowdown';
}

/** For example `4 of 100`. A share below one in a hundred is not shown as zero. */
const formatPerHundred = (share: number) =>
  share < 0.01 ? 'fewer than 1 of 100' : `${Math.round(share * 100)} of 100`;

function budgetWords({ budget_seconds }: FormerBoots, { past_budget_share, slowest_seconds }: SlowerBoots): string {
  const budget = `the budget of ${formatSeconds(budget_seconds)}`;
  return past_budget_share > 0
    ? `at this pace ${formatPerHundred(past_budget_share)} exceed ${budget} and fail although they would arrive`
    : `none of them has exceeded ${budget} yet; the slowest took ${formatSeconds(slowest_seconds)}`;
}

function changeWords({ generation, image, former_image }: SlowerBoots): string[] {
  if (generation === null) return [];
  const imageChange =
    image === null && former_image === null ? '' : `, image ${former_image ?? 'none'} → ${image ?? 'none'}`;
  return [`the pool changed at that time: generation ${generation}${imageChange}`];
}

const capitalize = (words: string) => words.charAt(0).toUpperCase() + words.slice(1);

/** The text of the finding. It starts in lower case, as all finding texts do. */
export function renderShift(ours: FormerBoots, theirs: SlowerBoots): string {
  const { phase, median_seconds } = ours;
  const times = theirs.times_as_long.toFixed(1);
  const pace = `${subjectWords[phase]} ${times} times ${asLongWords[phase]} since ${theirs.since}: median ${formatSeconds(theirs.median_seconds)}, before ${formatSeconds(median_seconds)}`;
  return [pace, causeWords(theirs), budgetWords(ours, theirs), ...changeWords(theirs)]
    .map((words, place) => (place === 0 ? words : capitalize(words)))
    .join('. ');
}
