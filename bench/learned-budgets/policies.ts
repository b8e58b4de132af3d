/**
 * Applies a policy to the boots of a pool: the product's own rules over virtual time, and plain
 * deadlines for comparison.
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
   * Differs from the product: gives up early for silence, with the rescue window of a pool without
   * progress reports.
   */
  rescues_as_if_deaf?: boolean;
}

/**
 * The full policy first; the others show the effect of each part. All start with the product's
 * default budget.
 */
export const policies: readonly [Policy, ...Policy[]] = [
  { name: 'learned, progress, rescue', learns: true, progress_aware: true, rescues: true },
  { name: '… rescue of half the budget', learns: true, progress_aware: true, rescues: true, rescues_as_if_deaf: true },
  { name: 'learned, rescue', learns: true, progress_aware: false, rescues: true },
  { name: 'learned, progress', learns: true, progress_aware: true, rescues: false },
  { name: 'learned alone', learns: true, progress_aware: false, rescues: false },
  { name: 'fixed 720 s, progress, rescue', learns: false, progress_aware: true, rescues: true },
];

export interface Tally {
  /** Boots that would complete. */
  completing: number;
  stuck: number;
  /** Would have completed, but were destroyed. */
  false_kills: number;
  /** Given up too early, and rescued. */
  rescued: number;
  /** Seconds from start to failure of stuck boots, summed. */
  found_seconds: number;
  /** Run time of destroyed boots, stuck or not, summed. */
  burnt_seconds: number;
}

export const noTally = (): Tally => ({
  ...{ completing: 0, stuck: 0, false_kills: 0, rescued: 0, found_seconds: 0, burnt_seconds: 0 },
});

export function addTally(to: Tally, one: Tally): void {
  for (const measure of Object.keys(to) as (keyof Tally)[]) to[measure] += one[measure];
}

const began = new Date(0);
const dateAfter = (seconds: number) => new Date(seconds * 1000);

/** Seconds after its start at which a boot is given up. */
function deadlineOf(boots: Boots, boot: number, budget_seconds: number, progress_aware: boolean): number {
  if (!progress_aware) return budget_seconds;
  let deadline_at = dateAfter(budget_seconds);
  for (let word = boot * boots.words; word < (boot + 1) * boots.words; word++) {
    const said = boots.says[word] ?? Number.POSITIVE_INFINITY;
    if (said * 1000 > deadline_at.getTime()) break;
    const phase = { status: 'provisioning', clock_from: began, budget_seconds, deadline_at, progress_aware } as const;
    deadline_at = deadlineAfterAdvance(phase, dateAfter(said)) ?? deadline_at;
  }
  return deadline_at.getTime() / 1000;
}

/** Per boot: when it was given up, and when it arrived. Infinite: never. */
interface Record {
  given_up: Float64Array;
  arrived: Float64Array;
}

function sampleAt(boots: Boots, record: Record, boot: number, at: number): TimedBoot {
  const since = at - (boots.begins[boot] ?? 0);
  const came = record.arrived[boot] ?? 0;
  const givenUp = record.given_up[boot] ?? 0;
  if (came <= since) return { seconds: came, outcome: givenUp < came ? 'late' : 'completed' };
  if (givenUp <= since) return { seconds: givenUp, outcome: 'timed_out' };
  return { seconds: since, outcome: 'running' };
}

/** The newest boots started by then, since the current make. */
function samples(boots: Boots, record: Record, begun: number, at: number, since: number): TimedBoot[] {
  const oldest = Math.max(since, at - maxLearnedAgeSeconds);
  const newestSamples: TimedBoot[] = [];
  for (let boot = begun - 1; boot >= 0 && newestSamples.length < maxBootsLearnedFrom; boot--) {
    if ((boots.begins[boot] ?? 0) < oldest) break;
    newestSamples.push(sampleAt(boots, record, boot, at));
  }
  return newestSamples;
}

interface Standing {
  seconds: number;
  moves: { at: number; from_seconds: number; seconds: number }[];
}

function ask(boots: Boots, record: Record, begun: number, at: number, standing: Standing): void {
  const makeSince = at >= boots.new_image_at ? boots.new_image_at : 0;
  const make = samples(boots, record, begun, at, makeSince);
  const isEnough = make.filter(hasArrived).length >= minBootsToLearn;
  // A new image is an operator's change, so earlier moves no longer limit.
  const limitedSince = Math.max(at - limitWindowSeconds, makeSince);
  const { seconds, moved } = learnBudget({
    boots: isEnough ? { make } : { make, pool: samples(boots, record, begun, at, 0) },
    fixed_seconds: defaultBudgets.provision,
    current_seconds: standing.seconds,
    recent_seconds: standing.moves
      .filter((move) => move.at > limitedSince)
      .flatMap((move) => [move.from_seconds, move.seconds]),
  });
  if (!moved) return;
  standing.moves.push({ at, from_seconds: standing.seconds, seconds });
  standing.seconds = seconds;
}

function rescueSeconds(policy: Policy, learned_seconds: number): number {
  if (!policy.rescues) return 0;
  const progress_aware = policy.progress_aware && !policy.rescues_as_if_deaf;
  return resolveBudget({ phase: 'rescue', pool: { progress_aware }, learned_seconds }).seconds;
}

export interface Outcome extends Tally {
  /** In force at the end of each day. */
  budgets: number[];
}

export function runPolicy(policy: Policy, boots: Boots): Outcome {
  const outcome: Outcome = { ...noTally(), budgets: [] };
  const record = { given_up: new Float64Array(boots.count), arrived: new Float64Array(boots.count) };
  const standing: Standing = { seconds: defaultBudgets.provision, moves: [] };
  const every = daySeconds / fleet.asks_per_day;
  let begun = 0;
  for (let at = every; at <= totalSeconds; at += every) {
    const rescue = rescueSeconds(policy, standing.seconds);
    for (; begun < boots.count && (boots.begins[begun] ?? 0) < at; begun++) {
      const takes = boots.takes[begun] ?? 0;
      const deadline = deadlineOf(boots, begun, standing.seconds, policy.progress_aware);
      judge(outcome, takes, deadline, rescue);
      record.given_up[begun] = takes <= deadline ? Number.POSITIVE_INFINITY : deadline;
      record.arrived[begun] = takes <= deadline + rescue ? takes : Number.POSITIVE_INFINITY;
    }
    if (policy.learns) ask(boots, record, begun, at, standing);
    outcome.budgets.push(standing.seconds);
  }
  return outcome;
}

/** Judges one boot by a deadline and a rescue window. */
export function judge(tally: Tally, takes: number, deadline: number, rescue: number): void {
  const isStuck = takes === Number.POSITIVE_INFINITY;
  tally[isStuck ? 'stuck' : 'completing']++;
  if (takes <= deadline) return;
  if (isStuck) tally.found_seconds += deadline;
  else if (takes <= deadline + rescue) tally.rescued++;
  else tally.false_kills++;
  if (takes > deadline + rescue) tally.burnt_seconds += deadline + rescue;
}
