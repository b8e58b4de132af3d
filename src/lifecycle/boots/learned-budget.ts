/**
 * Learns a pool's provision budget from its recorded boots, and limits how fast the budget moves.
 */
import { hasArrived, quantileOf, type SurvivalStep, survivalCurve, type TimedBoot } from './survival.ts';
import { formatSeconds } from './what-if-words.ts';

/**
 * With fewer completed boots than `minBootsToLearn`, nothing is learned. From `enoughForQuantile`
 * boots on, the 99th percentile is reliable enough to replace the maximum.
 */
export const minBootsToLearn = 30;
export const enoughForQuantile = 300;
const margin = 1.5;
/** The largest relative move of a budget in any 24 hours, unless an operator sets the budget. */
export const maxMovePerDay = 0.25;
/** Smaller relative moves are not worth a change. */
const minMove = 0.05;
export const limitWindowSeconds = 86_400;
/** Only this many of the newest boots of each stratum count, and none above this age. */
export const maxBootsLearnedFrom = 500;
export const maxLearnedAgeSeconds = 30 * 86_400;

/**
 * The floor and ceiling of a learned budget if the pool sets none: at least a minute, and at most
 * an hour unless the pool's fixed budget or floor is longer.
 */
const defaultFloorSeconds = 60;
const defaultCeilingSeconds = 3600;

/**
 * The groups of boots to learn from, most similar first. A make is the pool's current image, spec
 * and class. Boots of another make or another pool never lower a budget below the fixed one.
 */
export const strata = ['make-in-zone', 'make', 'pool', 'class'] as const;
export type Stratum = (typeof strata)[number];
const strataOfSameMake: readonly Stratum[] = ['make-in-zone', 'make'];

export const stratumWords: Record<Stratum, string> = {
  'make-in-zone': "boots of the pool's current image and spec, in its zone",
  make: "boots of the pool's current image and spec",
  pool: 'boots of the pool, including former images and specs',
  class: 'boots of all pools of its class',
};

export type Basis = 'largest' | 'p99';

export interface Lesson {
  stratum: Stratum;
  basis: Basis;
  /** The maximum or the 99th percentile, before the margin. */
  basis_seconds: number;
  boots: number;
  completions: number;
  curve: SurvivalStep[];
}

/** Undefined if too few boots of the stratum completed. */
export function lessonOf(stratum: Stratum, boots: readonly TimedBoot[]): Lesson | undefined {
  const completed = boots.filter(hasArrived);
  if (completed.length < minBootsToLearn) return undefined;
  const curve = survivalCurve(boots);
  const basis: Basis = completed.length < enoughForQuantile ? 'largest' : 'p99';
  const largest = completed.reduce((most, { seconds }) => Math.max(most, seconds), 0);
  const basis_seconds = basis === 'largest' ? largest : (quantileOf(curve, 0.99) ?? largest);
  return { stratum, basis, basis_seconds, boots: boots.length, completions: completed.length, curve };
}

export interface LearningQuestion {
  /** The boots of each stratum, including those that are still running. */
  boots: Partial<Record<Stratum, readonly TimedBoot[]>>;
  /** The pool's budget while nothing is learned. */
  fixed_seconds: number;
  floor_seconds?: number | undefined;
  ceiling_seconds?: number | undefined;
  /** The current budget, and the budgets of the last 24 hours since an operator last set one. */
  current_seconds: number;
  recent_seconds: readonly number[];
  /** Whether an operator set the current budget less than a day ago. */
  set_today?: boolean;
}

export interface LearnedBudget {
  /** The budget of the next boot: the current budget if the move would be too small. */
  seconds: number;
  moved: boolean;
  /** The target. The daily limit may delay reaching it. */
  aim_seconds: number;
  lesson: Lesson | null;
  /** The bounds that changed the target, or the move towards it. */
  limits: ('floor' | 'ceiling' | 'fixed' | 'day' | 'operator')[];
}

const clamp = (low: number, seconds: number, high: number): number => Math.max(low, Math.min(high, seconds));

interface Aim extends Pick<LearnedBudget, 'lesson' | 'limits'> {
  seconds: number;
}

function aimOf(question: LearningQuestion): Aim {
  const { fixed_seconds } = question;
  const ceiling =
    question.ceiling_seconds ?? Math.max(defaultCeilingSeconds, fixed_seconds, question.floor_seconds ?? 0);
  // The default floor must not exceed a ceiling that the pool sets.
  const floor_seconds = question.floor_seconds ?? Math.min(defaultFloorSeconds, ceiling);
  for (const stratum of strata) {
    const lesson = lessonOf(stratum, question.boots[stratum] ?? []);
    if (!lesson) continue;
    const proposed = lesson.basis_seconds * margin;
    const lowerBound = strataOfSameMake.includes(stratum) ? floor_seconds : Math.max(floor_seconds, fixed_seconds);
    const seconds = clamp(lowerBound, proposed, ceiling);
    const limits: LearnedBudget['limits'] = [];
    if (proposed < lowerBound) limits.push(lowerBound > floor_seconds ? 'fixed' : 'floor');
    if (proposed > ceiling) limits.push('ceiling');
    return { seconds, lesson, limits };
  }
  return { seconds: fixed_seconds, lesson: null, limits: [] };
}

/**
 * Moves the budget towards its target, within the daily limit. Without a lesson the target is the
 * fixed budget.
 */
export function learnBudget(question: LearningQuestion): LearnedBudget {
  const { current_seconds, recent_seconds } = question;
  const aim = aimOf(question);
  const { seconds: aim_seconds, lesson, limits } = aim;
  // The next pass must not undo what an operator has just set.
  if (question.set_today)
    return { seconds: current_seconds, moved: false, aim_seconds, lesson, limits: [...limits, 'operator'] };
  const budgetsOfDay = [current_seconds, ...recent_seconds];
  const lowest = Math.max(...budgetsOfDay) * (1 - maxMovePerDay);
  const highest = Math.min(...budgetsOfDay) * (1 + maxMovePerDay);
  // If the budget moved up and down within a day, both limits may be used up.
  const next_seconds = lowest <= highest ? clamp(lowest, aim_seconds, highest) : current_seconds;
  const moved =
    Math.abs(next_seconds - current_seconds) >= minMove * current_seconds || isLastStep(next_seconds, question, aim);
  return {
    seconds: moved ? next_seconds : current_seconds,
    moved,
    aim_seconds,
    lesson,
    limits: next_seconds === aim_seconds ? limits : [...limits, 'day'],
  };
}

/**
 * The last step is taken even if it is small. Otherwise the budget would stay "learned" without a
 * lesson, or stay beyond its floor or ceiling.
 */
const isLastStep = (next_seconds: number, { current_seconds }: LearningQuestion, { seconds, lesson, limits }: Aim) =>
  next_seconds === seconds && current_seconds !== seconds && (lesson === null || limits.length > 0);

const basisWords: Record<Basis, string> = { largest: 'the slowest took', p99: '99 in 100 took at most' };
const limitWords: Record<LearnedBudget['limits'][number], string> = {
  floor: "not below the pool's floor",
  ceiling: "not above the pool's ceiling",
  fixed: 'boots of other pools or images never lower it',
  day: 'at most 25 % in a day',
  operator: "an operator's setting stays for a day",
};

/** Explains the budget in one sentence for people. */
export function learnedReason({ lesson, aim_seconds, limits }: LearnedBudget, question: LearningQuestion): string {
  const limitText = limits.map((limit) => limitWords[limit]).join('; ');
  if (!lesson) {
    const recorded = Math.max(0, ...strata.map((each) => (question.boots[each] ?? []).filter(hasArrived).length));
    const tooFew = `${recorded} of the required ${minBootsToLearn} completed boots are recorded`;
    return `${tooFew}, so the fixed budget of ${formatSeconds(question.fixed_seconds)} applies${limitText && ` (${limitText})`}`;
  }
  const { completions, stratum, basis, basis_seconds } = lesson;
  const proposed = `of ${completions} completed ${stratumWords[stratum]}, ${basisWords[basis]} ${formatSeconds(basis_seconds)}`;
  return `${proposed}; plus a margin of 50 % that is ${formatSeconds(basis_seconds * margin)}${limitText ? `, so the target is ${formatSeconds(aim_seconds)} (${limitText})` : ''}`;
}
