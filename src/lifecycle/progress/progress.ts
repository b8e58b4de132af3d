/**
 * Computes the progress of an operation from its plan, its steps and earlier runs. The percentage
 * never decreases while steps advance: weights are fixed when the operation is queued, and the last
 * published percentage is the lower bound.
 */
import type { OperationStatus, StepStatus } from '../model/states.ts';
import {
  computeSlowerThan,
  type Expected,
  expectedOf,
  remainingOf,
  type StepHistory,
  stallAfterSeconds,
} from './expectation.ts';

export interface StepFacts {
  ordinal: number;
  name: string;
  label: string;
  status: StepStatus;
  /**
   * The plan's estimate. Without a history it is the weight of the step, and its part of the
   * remaining time of the steps before it. It is never the `expected` duration.
   */
  usual_seconds: number | null;
  expected: StepHistory | null;
  started_at: Date | null;
  retry_at: Date | null;
  tries: number;
  /** The last error. The step fails until it ends or its driver answers without an error. */
  error: StepError | null;
}

export interface StepError {
  code: string;
  owner_layer: string;
  message: string;
}

export interface ProgressFacts {
  status: OperationStatus;
  steps: readonly StepFacts[];
  started_at: Date | null;
  finished_at: Date | null;
  created_at: Date;
  /** When a step, a message or a part last changed. */
  advanced_at: Date | null;
  /** When the executor plans to check again. */
  retry_at: Date | null;
  /** The `retry_at` at the last advance. Until then the operation does not count as stalled. */
  patient_until: Date | null;
  /** Since when the current step fails. Null for a failure that an older version recorded. */
  failing_since: Date | null;
  /** How long the current step failed before. This time is no progress. */
  failed_seconds: number;
  /** The last published percentage. */
  percent: number;
  now: Date;
}

export interface ComputedProgress {
  phase: string;
  label: string;
  step: number;
  total_steps: number;
  percent: number;
  elapsed_seconds: number;
  step_elapsed_seconds: number;
  expected: Expected | null;
  eta_seconds: number | null;
  slower_than: number | null;
  stalled: boolean;
  retry_after_seconds?: number;
  /** Set while the current step fails. Then the percentage does not advance. */
  failing?: StepError & { tries: number; seconds: number | null };
}

/** The name of a step without its stage: `launch:pull_image` is `pull_image`. */
export const phaseOf = (name: string): string => name.slice(name.indexOf(':') + 1);

/** The stage of a step: `launch` for `launch:pull_image`. */
export const stageOf = (name: string): string => name.split(':', 1)[0] ?? name;

/** The weight of a step without an estimate. */
const unknownStepSeconds = 5;
const minWeight = 0.5;
/** Within a step the bar never exceeds this share of the step. */
const maxShareInsideStep = 0.95;
/**
 * The share of a step that is shown at its median duration and at its 90th percentile. After that
 * the bar approaches `maxShareInsideStep` ever more slowly.
 */
const shareAtMedian = 0.7;
const shareAtP90 = 0.9;

const estimateOf = (step: StepFacts) => expectedOf(step.expected)?.p50_seconds ?? step.usual_seconds;
const weightOf = (step: StepFacts) => Math.max(minWeight, estimateOf(step) ?? unknownStepSeconds);
const isComplete = (step: StepFacts) => step.status === 'done' || step.status === 'skipped';
const elapsedSeconds = (from: Date | null, to: Date) =>
  from ? Math.max(0, (to.getTime() - from.getTime()) / 1000) : 0;

const approach = (elapsed: number, usual: number) => 1 - Math.exp(-elapsed / usual);

function fractionInside(step: StepFacts, elapsed: number): number {
  const expected = expectedOf(step.expected);
  if (!expected) return maxShareInsideStep * approach(elapsed, weightOf(step));
  const median = Math.max(minWeight, expected.p50_seconds);
  const slow = Math.max(median, expected.p90_seconds);
  if (elapsed < median) return (shareAtMedian * elapsed) / median;
  if (elapsed < slow) return shareAtMedian + ((shareAtP90 - shareAtMedian) * (elapsed - median)) / (slow - median);
  return shareAtP90 + (maxShareInsideStep - shareAtP90) * approach(elapsed - slow, slow);
}

const totalWeight = (steps: readonly StepFacts[]) => steps.reduce((total, step) => total + weightOf(step), 0);

const isFailing = (step: StepFacts) => step.error !== null && !isComplete(step);

/** The time of the current step that counts as progress: without the time in which it failed. */
function workedSeconds({ failing_since, failed_seconds }: ProgressFacts, current: StepFacts, at: Date): number {
  if (isComplete(current)) return 0;
  const until = isFailing(current) ? failing_since : at;
  if (until === null) return 0;
  return Math.max(0, elapsedSeconds(current.started_at, until < at ? until : at) - failed_seconds);
}

function failureOf({ failing_since, status, now }: ProgressFacts, current: StepFacts | undefined) {
  const isOpen = status === 'running' || status === 'cancelling';
  if (!isOpen || !current?.error || isComplete(current)) return {};
  const { tries, error } = current;
  const { code, owner_layer, message } = error;
  const seconds = failing_since && elapsedSeconds(failing_since, now);
  return { failing: { code, owner_layer, message, tries, seconds } };
}

function percentOf(facts: ProgressFacts, current: StepFacts | undefined, worked: number): number {
  if (facts.status === 'succeeded') return 100;
  const total = totalWeight(facts.steps);
  const completedWeight = totalWeight(facts.steps.filter(isComplete));
  const currentWeight =
    current?.started_at && !isComplete(current) ? weightOf(current) * fractionInside(current, worked) : 0;
  const percent = total === 0 ? 0 : Math.min(99, (100 * (completedWeight + currentWeight)) / total);
  return Math.max(facts.percent, Math.floor(percent * 10) / 10);
}

/**
 * The remaining time of the current step by its history, plus the estimates of later steps. Null if
 * the current step has no history, exceeds it or fails, or if a later step has no estimate.
 */
function etaOf(steps: readonly StepFacts[], current: StepFacts, worked: number): number | null {
  if (isFailing(current)) return null;
  const expected = expectedOf(current.expected);
  const remaining = expected && remainingOf(expected, worked);
  if (remaining === null) return null;
  const later = steps.filter((step) => step.ordinal > current.ordinal && !isComplete(step)).map(estimateOf);
  return later.reduce<number | null>(
    (total, estimate) => (total === null || estimate === null ? null : total + estimate),
    remaining,
  );
}

/** The estimates of an operation. All but `expected` exist only while a step runs. */
function estimatesOf(facts: ProgressFacts, current: StepFacts | undefined, stepElapsed: number, worked: number) {
  const isRunning = facts.finished_at === null && current?.started_at !== null && current && !isComplete(current);
  const expected = current ? expectedOf(current.expected) : null;
  if (!isRunning) return { expected, eta_seconds: null, slower_than: null, stalled: false };
  const retry_at = current.status === 'waiting' ? (current.retry_at ?? facts.retry_at) : facts.retry_at;
  const retry_after_seconds = elapsedSeconds(facts.now, retry_at ?? facts.now);
  const idleSeconds = elapsedSeconds(facts.advanced_at ?? current.started_at, facts.now);
  const patient_until = current.status === 'waiting' ? retry_at : facts.patient_until;
  return {
    expected,
    eta_seconds: etaOf(facts.steps, current, worked),
    slower_than: current.expected && expected ? computeSlowerThan(current.expected, stepElapsed) : null,
    // A step may announce until when it waits, and is not stalled before then. Outside of a wait,
    // only the time announced with its last advance counts, because announcing a later time again
    // and again is no progress.
    stalled:
      expected !== null &&
      idleSeconds > stallAfterSeconds(expected) &&
      (patient_until === null || facts.now >= patient_until),
    ...(retry_at && { retry_after_seconds }),
  };
}

export function progressOf(facts: ProgressFacts): ComputedProgress {
  const { steps, status } = facts;
  const at = facts.finished_at ?? facts.now;
  const current = steps.find((step) => !isComplete(step)) ?? steps.at(-1);
  const stepElapsed = current && !isComplete(current) ? elapsedSeconds(current.started_at, at) : 0;
  const worked = current ? workedSeconds(facts, current, at) : 0;
  return {
    phase: status === 'succeeded' ? 'completed' : current ? phaseOf(current.name) : status,
    label: current?.label ?? '',
    step: current?.ordinal ?? 0,
    total_steps: steps.length,
    percent: percentOf(facts, current, worked),
    elapsed_seconds: elapsedSeconds(facts.started_at ?? facts.created_at, at),
    step_elapsed_seconds: stepElapsed,
    ...estimatesOf(facts, current, stepElapsed, worked),
    ...failureOf(facts, current),
  };
}

/** Shorter waits need no explanation. */
const noEstimateAfterSeconds = 5;
const bootStages: readonly string[] = ['launch', 'register', 'start'];

/**
 * Explains why the first boot of a pool has no estimate. Empty if there is an estimate, or if the
 * operation is no running boot.
 */
export function explainNoEstimate(
  status: OperationStatus,
  /** The name of the current step. */
  step: string,
  { expected, step_elapsed_seconds }: Pick<ComputedProgress, 'expected' | 'step_elapsed_seconds'>,
): string {
  if (status !== 'running' || expected !== null || !bootStages.includes(stageOf(step))) return '';
  return step_elapsed_seconds < noEstimateAfterSeconds ? '' : 'no earlier boot to compare with, so no estimate';
}
