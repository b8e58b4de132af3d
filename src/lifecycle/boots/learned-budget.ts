/** The budget to provision that recorded boots teach, and how far it may move at once. Pure. */
import { hasArrived, quantileOf, type SurvivalStep, survivalCurve, type TimedBoot } from './survival.ts';

/** Fewer teach nothing; from so many on, the slowest hundredth is known well enough to go by. */
export const minBootsToLearn = 30;
export const enoughForQuantile = 300;
const margin = 1.5;
/** In any 24 hours, unless an operator says otherwise. */
export const maxMovePerDay = 0.25;
/** A smaller move is not worth a verdict. */
const leastMove = 0.05;
export const limitWindowSeconds = 86_400;
/** Of each stratum: so many of the newest, and none that is older. */
export const maxBootsLearnedFrom = 500;
export const maxLearnedAgeSeconds = 30 * 86_400;

/** For pools that set none: no boot is called stuck within a minute, and none is waited for longer than an hour. */
const defaultFloorSeconds = 60;
const defaultCeilingSeconds = 3600;

/**
 * Whose boots are asked, the most alike first. `make` is what the pool makes now: its image, its spec and its class.
 * What another make, or another pool, taught may raise a budget and never lowers it.
 */
export const strata = ['make-in-zone', 'make', 'pool', 'class'] as const;
export type Stratum = (typeof strata)[number];
const ofThisMake: readonly Stratum[] = ['make-in-zone', 'make'];

export const stratumWords: Record<Stratum, string> = {
  'make-in-zone': 'boots of what the pool makes now, in its zone',
  make: 'boots of what the pool makes now',
  pool: 'boots of the pool, of former images and specs too',
  class: 'boots of all pools of its class',
};

export type Basis = 'largest' | 'p99';

export interface Lesson {
  stratum: Stratum;
  basis: Basis;
  /** The largest, or the 99th of a hundred, before the margin. */
  basis_seconds: number;
  boots: number;
  completions: number;
  curve: SurvivalStep[];
}

/** What the boots of one stratum teach; nothing where too few completed. */
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
  /** The boots of each stratum that was asked, those still running among them. */
  boots: Partial<Record<Stratum, readonly TimedBoot[]>>;
  /** What the pool gets where nothing is learned. */
  fixed_seconds: number;
  floor_seconds?: number | undefined;
  ceiling_seconds?: number | undefined;
  /** The budget in force, and every one that was within the last 24 hours without an operator's word since. */
  standing_seconds: number;
  lately_seconds: readonly number[];
  /** An operator gave it the number that stands, less than a day ago. */
  new_number?: boolean;
}

export interface LearnedBudget {
  /** What the next boot gets: the standing budget, where the move would be too small. */
  seconds: number;
  moved: boolean;
  /** Where it is going: the limit of a day may keep it from there. */
  aim_seconds: number;
  lesson: Lesson | null;
  /** What kept the aim, or the move towards it, from what the boots say. */
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
  // What nobody has set gives way to what somebody has.
  const floor_seconds = question.floor_seconds ?? Math.min(defaultFloorSeconds, ceiling);
  for (const stratum of strata) {
    const lesson = lessonOf(stratum, question.boots[stratum] ?? []);
    if (!lesson) continue;
    const taught = lesson.basis_seconds * margin;
    const least = ofThisMake.includes(stratum) ? floor_seconds : Math.max(floor_seconds, fixed_seconds);
    const seconds = clamp(least, taught, ceiling);
    const limits: LearnedBudget['limits'] = [];
    if (taught < least) limits.push(least > floor_seconds ? 'fixed' : 'floor');
    if (taught > ceiling) limits.push('ceiling');
    return { seconds, lesson, limits };
  }
  return { seconds: fixed_seconds, lesson: null, limits: [] };
}

/** Where the budget goes from where it stands. Without a lesson it goes back to what is fixed, no faster. */
export function learnBudget(question: LearningQuestion): LearnedBudget {
  const { standing_seconds, lately_seconds } = question;
  const aim = aimOf(question);
  const { seconds: aim_seconds, lesson, limits } = aim;
  // Whoever gives more time tonight must not find it taken away a moment later.
  if (question.new_number)
    return { seconds: standing_seconds, moved: false, aim_seconds, lesson, limits: [...limits, 'operator'] };
  const within = [standing_seconds, ...lately_seconds];
  const lowest = Math.max(...within) * (1 - maxMovePerDay);
  const highest = Math.min(...within) * (1 + maxMovePerDay);
  // Where it already moved both ways within the day, no move is left: it stands.
  const reached = lowest <= highest ? clamp(lowest, aim_seconds, highest) : standing_seconds;
  const moved =
    Math.abs(reached - standing_seconds) >= leastMove * standing_seconds || isLastStep(reached, question, aim);
  return {
    seconds: moved ? reached : standing_seconds,
    moved,
    aim_seconds,
    lesson,
    limits: reached === aim_seconds ? limits : [...limits, 'day'],
  };
}

/**
 * However small, it is taken: back to what is fixed, or it would be called learned for ever; and to the floor or the ceiling, or it
 * would stand beyond it.
 */
const isLastStep = (reached: number, { standing_seconds }: LearningQuestion, { seconds, lesson, limits }: Aim) =>
  reached === seconds && standing_seconds !== seconds && (lesson === null || limits.length > 0);

const seconds = (value: number): string => `${Number(value.toFixed(value < 10 ? 1 : 0))} s`;

const basisWords: Record<Basis, string> = { largest: 'the slowest took', p99: '99 in 100 took at most' };
const limitWords: Record<LearnedBudget['limits'][number], string> = {
  floor: "not below the pool's floor",
  ceiling: "not above the pool's ceiling",
  fixed: 'what others taught never lowers it',
  day: 'at most 25 % in a day',
  operator: 'what an operator set stands for a day',
};

/** Why the budget is, or goes, where it is: one sentence for a person. */
export function learnedReason({ lesson, aim_seconds, limits }: LearnedBudget, question: LearningQuestion): string {
  const held = limits.map((limit) => limitWords[limit]).join('; ');
  if (!lesson) {
    const most = Math.max(0, ...strata.map((each) => (question.boots[each] ?? []).filter(hasArrived).length));
    const few = `${most} of the ${minBootsToLearn} completed boots that it takes are on record`;
    return `${few}, so it is what is fixed, ${seconds(question.fixed_seconds)}${held && ` (${held})`}`;
  }
  const { completions, stratum, basis, basis_seconds } = lesson;
  const taught = `of ${completions} completed ${stratumWords[stratum]}, ${basisWords[basis]} ${seconds(basis_seconds)}`;
  return `${taught}; with half as much again that is ${seconds(basis_seconds * margin)}${held ? `, aimed at ${seconds(aim_seconds)} (${held})` : ''}`;
}
