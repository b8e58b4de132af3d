/** How far an operation is, as a function of its steps and now. Pure; never runs backwards while steps only advance. */
import type { OperationStatus, StepStatus } from './states.ts';

export interface StepFacts {
  ordinal: number;
  name: string;
  label: string;
  status: StepStatus;
  usual_seconds: number | null;
  started_at: Date | null;
}

export interface ProgressFacts {
  status: OperationStatus;
  steps: readonly StepFacts[];
  started_at: Date | null;
  finished_at: Date | null;
  created_at: Date;
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
}

/** A step nobody has an expectation for weighs as much as a short one. */
const unknownStepSeconds = 5;
const leastWeight = 0.5;
/** In a long step the bar nears the step's end and never reaches it before the step does. */
const reachInsideStep = 0.95;

const weightOf = (step: StepFacts) => Math.max(leastWeight, step.usual_seconds ?? unknownStepSeconds);
const isOver = (step: StepFacts) => step.status === 'done' || step.status === 'skipped';
const seconds = (from: Date | null, to: Date) => (from ? Math.max(0, (to.getTime() - from.getTime()) / 1000) : 0);

function fractionInside(step: StepFacts, elapsed: number): number {
  const usual = Math.max(leastWeight, step.usual_seconds ?? unknownStepSeconds);
  return reachInsideStep * (1 - Math.exp(-elapsed / usual));
}

export function progressOf(facts: ProgressFacts): ComputedProgress {
  const { steps, status } = facts;
  const at = facts.finished_at ?? facts.now;
  const current = steps.find((step) => !isOver(step)) ?? steps.at(-1);
  const total = steps.reduce((sum, step) => sum + weightOf(step), 0);
  const over = steps.filter(isOver).reduce((sum, step) => sum + weightOf(step), 0);
  const stepElapsed = current && !isOver(current) ? seconds(current.started_at, at) : 0;
  const inside =
    current && !isOver(current) && current.started_at ? weightOf(current) * fractionInside(current, stepElapsed) : 0;
  const percent = status === 'succeeded' ? 100 : total === 0 ? 0 : Math.min(99, (100 * (over + inside)) / total);
  return {
    phase: status === 'succeeded' ? 'completed' : (current?.name ?? status),
    label: current?.label ?? '',
    step: current?.ordinal ?? 0,
    total_steps: steps.length,
    percent: Math.floor(percent * 10) / 10,
    elapsed_seconds: seconds(facts.started_at ?? facts.created_at, at),
    step_elapsed_seconds: stepElapsed,
  };
}
