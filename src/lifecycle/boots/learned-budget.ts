/**
 * Learns a pool's provision budget from its recorded boots, and limits how fast the budget moves.
 */
import { hasArrived, quantileOf, type SurvivalStep, survivalCurve, type TimedBoot } from './survival.ts';
import { inSeconds } from './what-if-words.ts';

/**
 * With fewer boots nothing is learned. With `enoughForQuantile` the 99th percentile is reliable
 * enough to replace the maximum.
 */
export const minBootsToLearn = 30;
export const enoughForQuantile = 300;
const margin = 1.5;
/** In any 24 hours, unless an operator sets the budget. */
export const maxMovePerDay = 0.25;
/** A smaller move is not worth a change. */
const minMove = 0.05;
export const limitWindowSeconds = 86_400;
/** Only the newest boots of each stratum count, and none above this age. */
export const maxBootsLearnedFrom = 500;
export const maxLearnedAgeSeconds = 30 * 86_400;

/**
 * For pools without a floor or ceiling: no boot fails within a minute, and none gets more than an
 * hour.
 */
const defaultFloorSeconds = 60;
const defaultCeilingSeconds = 3600;

/**
 * The groups of boots to learn from, most similar first. A make is the pool's current image, spec
 * and class. Boots of another make or another pool may raise a budget, but never lower it.
 */
export const strata = ['make-in-zone', 'make', 'pool', 'class'] as const;
export type Stratum = (typeof strata)[number];
const ofThisMake: readonly Stratum[] = ['make-in-zone', 'make'];

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
  /** By stratum, including boots that are still running. */
  boots: Partial<Record<Stratum, readonly TimedBoot[]>>;
  /** The pool's budget while nothing is learned. */
  fixed_seconds: number;
  floor_seconds?: number | undefined;
  ceiling_seconds?: number | undefined;
  /** The current budget, and all budgets of the last 24 hours since an operator last set one. */
  standing_seconds: number;
  lately_seconds: readonly number[];
  /** An operator set the current budget less than a day ago. */
  new_number?: boolean;
}

export interface LearnedBudget {
  /** The budget of the next boot. The current one, if the move would be too small. */
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
  // Defaults give way to settings.
  const floor_seconds = question.floor_seconds ?? Math.min(defaultFloorSeconds, ceiling);
  for (const stratum of strata) {
    const lesson = lessonOf(stratum, question.boots[stratum] ?? []);
    if (!lesson) continue;
    const proposed = lesson.basis_seconds * margin;
    const lowerBound = ofThisMake.includes(stratum) ? floor_seconds : Math.max(floor_seconds, fixed_seconds);
    const seconds = clamp(lowerBound, proposed, ceiling);
    const limits: LearnedBudget['limits'] = [];
    if (proposed < lowerBound) limits.push(lowerBound > floor_seconds ? 'fixed' : 'floor');
    if (proposed > ceiling) limits.push('ceiling');
    return { seconds, lesson, limits };
  }
  return { seconds: fixed_seconds, lesson: null, limits: [] };
}

/**
 * Moves the budget towards its target. Without a lesson the target is the fixed budget; the daily
 * limit applies to it too.
 */
export function learnBudget(question: LearningQuestion): LearnedBudget {
  const { standing_seconds, lately_seconds } = question;
  const aim = aimOf(question);
  const { seconds: aim_seconds, lesson, limits } = aim;
  // An operator who grants more time must not lose it to the next pass.
  if (question.new_number)
    return { seconds: standing_seconds, moved: false, aim_seconds, lesson, limits: [...limits, 'operator'] };
  const within = [standing_seconds, ...lately_seconds];
  const lowest = Math.max(...within) * (1 - maxMovePerDay);
  const highest = Math.min(...within) * (1 + maxMovePerDay);
  // If it already moved both ways within a day, no move is left.
  const reached = lowest <= highest ? clamp(lowest, aim_seconds, highest) : standing_seconds;
  const moved =
    Math.abs(reached - standing_seconds) >= minMove * standing_seconds || isLastStep(reached, question, aim);
  return {
    seconds: moved ? reached : standing_seconds,
    moved,
    aim_seconds,
    lesson,
    limits: reached === aim_seconds ? limits : [...limits, 'day'],
  };
}

/**
 * The last step is taken even if it is small. Otherwise the budget would stay "learned" without a
 * lesson, or stay beyond its floor or ceiling.
 */
const isLastStep = (reached: number, { standing_seconds }: LearningQuestion, { seconds, lesson, limits }: Aim) =>
  reached === seconds && standing_seconds !== seconds && (lesson === null || limits.length > 0);

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
  const held = limits.map((limit) => limitWords[limit]).join('; ');
  if (!lesson) {
    const most = Math.max(0, ...strata.map((each) => (question.boots[each] ?? []).filter(hasArrived).length));
    const few = `${most} of the required ${minBootsToLearn} completed boots are recorded`;
    return `${few}, so the fixed budget of ${inSeconds(question.fixed_seconds)} applies${held && ` (${held})`}`;
  }
  const { completions, stratum, basis, basis_seconds } = lesson;
  const proposed = `of ${completions} completed ${stratumWords[stratum]}, ${basisWords[basis]} ${inSeconds(basis_seconds)}`;
  return `${proposed}; plus a margin of 50 % that is ${inSeconds(basis_seconds * margin)}${held ? `, so the target is ${inSeconds(aim_seconds)} (${held})` : ''}`;
}
