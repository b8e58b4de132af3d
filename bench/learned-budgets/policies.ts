/**
 * Applies a policy to the boots of a pool over virtual time. Policies use the product's own rules;
 * fixed deadlines are judged for comparison.
 */
import {
  learnBudget,
  limitWindowSeconds,
  maxBootsLearnedFrom,
  maxLearnedAgeSeconds,
  minBootsToLearn,
} from '../../src/lifecycle/boots/learned-budget.ts';
import { hasArrived, type TimedBoot } from '../../src/lifecycle/boots/survival.ts';
import { deadlineAfterAdvance } from '../../src/lifecycle/deadlines/boot-advance.ts';
import { defaultBudgets, resolveBudget } from '../../src/lifecycle/deadlines/budgets.ts';
import { type Boots, daySeconds, totalSeconds } from './fleet.ts';
import { fleet } from './parameters.ts';

export interface Policy {
  name: string;
  learns: boolean;
  progress_aware: boolean;
  rescues: boolean;
  /**
   * A variant that is not in the product: the policy gives up early on silent boots, but its rescue
   * window is that of a pool without progress reports.
   */
  rescue_ignores_progress?: boolean;
}

/**
 * The full policy first; the others show the effect of each part. All start with the product's
 * default budget.
 */
export const policies: readonly [Policy, ...Policy[]] = [
  { name: 'learned, progress, rescue', learns: true, progress_aware: true, rescues: true },
  {
    name: '… rescue of half the budget',
    learns: true,
    progress_aware: true,
    rescues: true,
    rescue_ignores_progress: true,
  },
  { name: 'learned, rescue', learns: true, progress_aware: false, rescues: true },
  { name: 'learned, progress', learns: true, progress_aware: true, rescues: false },
  { name: 'learned alone', learns: true, progress_aware: false, rescues: false },
  { name: 'fixed 720 s, progress, rescue', learns: false, progress_aware: true, rescues: true },
];

export interface Tally {
  /** Boots that would complete. */
  completing: number;
  stuck: number;
  /** Boots that would have completed but were destroyed. */
  false_kills: number;
  /** Boots that were given up too early and then rescued. */
  rescued: number;
  /** The sum of seconds from the start of a stuck boot until it was given up. */
  found_seconds: number;
  /** The sum of seconds that destroyed boots ran, stuck or not. */
  burnt_seconds: number;
}

export const emptyTally = (): Tally => ({
  ...{ completing: 0, stuck: 0, false_kills: 0, rescued: 0, found_seconds: 0, burnt_seconds: 0 },
});

export function addTally(to: Tally, one: Tally): void {
  for (const measure of Object.keys(to) as (keyof Tally)[]) to[measure] += one[measure];
}

const bootStart = new Date(0);
const dateAfter = (seconds: number) => new Date(seconds * 1000);

/** Seconds after its start at which a boot is given up. */
function deadlineOf(boots: Boots, boot: number, budget_seconds: number, progress_aware: boolean): number {
  if (!progress_aware) return budget_seconds;
  let deadline_at = dateAfter(budget_seconds);
  for (let report = boot * boots.reportCount; report < (boot + 1) * boots.reportCount; report++) {
    const reportedSeconds = boots.reportTimes[report] ?? Number.POSITIVE_INFINITY;
    if (reportedSeconds * 1000 > deadline_at.getTime()) break;
    const phase = {
      status: 'provisioning',
      clock_from: bootStart,
      budget_seconds,
      deadline_at,
      progress_aware,
    } as const;
    deadline_at = deadlineAfterAdvance(phase, dateAfter(reportedSeconds)) ?? deadline_at;
  }
  return deadline_at.getTime() / 1000;
}

/** For each boot, the seconds until it was given up and until it arrived; infinite for never. */
interface BootRecords {
  given_up: Float64Array;
  arrived: Float64Array;
}

function sampleAt(boots: Boots, record: BootRecords, boot: number, at: number): TimedBoot {
  const since = at - (boots.starts[boot] ?? 0);
  const arrivedSeconds = record.arrived[boot] ?? 0;
  const givenUpSeconds = record.given_up[boot] ?? 0;
  if (arrivedSeconds <= since)
    return { seconds: arrivedSeconds, outcome: givenUpSeconds < arrivedSeconds ? 'late' : 'completed' };
  if (givenUpSeconds <= since) return { seconds: givenUpSeconds, outcome: 'timed_out' };
  return { seconds: since, outcome: 'running' };
}

/** The newest boots that started before `at` and after `since`, as samples to learn from. */
function samplesAt(boots: Boots, record: BootRecords, startedBoots: number, at: number, since: number): TimedBoot[] {
  const oldest = Math.max(since, at - maxLearnedAgeSeconds);
  const newestSamples: TimedBoot[] = [];
  for (let boot = startedBoots - 1; boot >= 0 && newestSamples.length < maxBootsLearnedFrom; boot--) {
    if ((boots.starts[boot] ?? 0) < oldest) break;
    newestSamples.push(sampleAt(boots, record, boot, at));
  }
  return newestSamples;
}

/** The budget in force, and its earlier changes. */
interface CurrentBudget {
  seconds: number;
  moves: { at: number; from_seconds: number; seconds: number }[];
}

/** Evaluates the budget of the pool from its boots so far. */
function evaluateBudget(
  boots: Boots,
  record: BootRecords,
  startedBoots: number,
  at: number,
  current: CurrentBudget,
): void {
  const makeSince = at >= boots.new_image_at ? boots.new_image_at : 0;
  const make = samplesAt(boots, record, startedBoots, at, makeSince);
  const isEnough = make.filter(hasArrived).length >= minBootsToLearn;
  // A new image is an operator's change, so moves before it no longer limit the budget.
  const limitedSince = Math.max(at - limitWindowSeconds, makeSince);
  const { seconds, moved } = learnBudget({
    boots: isEnough ? { make } : { make, pool: samplesAt(boots, record, startedBoots, at, 0) },
    fixed_seconds: defaultBudgets.provision,
    current_seconds: current.seconds,
    recent_seconds: current.moves
      .filter((move) => move.at > limitedSince)
      .flatMap((move) => [move.from_seconds, move.seconds]),
  });
  if (!moved) return;
  current.moves.push({ at, from_seconds: current.seconds, seconds });
  current.seconds = seconds;
}

function rescueSeconds(policy: Policy, learned_seconds: number): number {
  if (!policy.rescues) return 0;
  const progress_aware = policy.progress_aware && !policy.rescue_ignores_progress;
  return resolveBudget({ phase: 'rescue', pool: { progress_aware }, learned_seconds }).seconds;
}

export interface Outcome extends Tally {
  /** The budget at the end of each day. */
  budgets: number[];
}

export function runPolicy(policy: Policy, boots: Boots): Outcome {
  const outcome: Outcome = { ...emptyTally(), budgets: [] };
  const record = { given_up: new Float64Array(boots.count), arrived: new Float64Array(boots.count) };
  const current: CurrentBudget = { seconds: defaultBudgets.provision, moves: [] };
  const everySeconds = daySeconds / fleet.evaluations_per_day;
  let startedBoots = 0;
  for (let at = everySeconds; at <= totalSeconds; at += everySeconds) {
    const rescue = rescueSeconds(policy, current.seconds);
    for (; startedBoots < boots.count && (boots.starts[startedBoots] ?? 0) < at; startedBoots++) {
      const duration = boots.durations[startedBoots] ?? 0;
      const deadline = deadlineOf(boots, startedBoots, current.seconds, policy.progress_aware);
      judge(outcome, duration, deadline, rescue);
      record.given_up[startedBoots] = duration <= deadline ? Number.POSITIVE_INFINITY : deadline;
      record.arrived[startedBoots] = duration <= deadline + rescue ? duration : Number.POSITIVE_INFINITY;
    }
    if (policy.learns) evaluateBudget(boots, record, startedBoots, at, current);
    outcome.budgets.push(current.seconds);
  }
  return outcome;
}

/** Adds the outcome of one boot under a deadline and a rescue window. */
export function judge(tally: Tally, duration: number, deadline: number, rescue: number): void {
  const isStuck = duration === Number.POSITIVE_INFINITY;
  tally[isStuck ? 'stuck' : 'completing']++;
  if (duration <= deadline) return;
  if (isStuck) tally.found_seconds += deadline;
  else if (duration <= deadline + rescue) tally.rescued++;
  else tally.false_kills++;
  if (duration > deadline + rescue) tally.burnt_seconds += deadline + rescue;
}
