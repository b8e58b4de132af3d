/** Checks the shown progress of an operation after every event. */
import { type ProgressFacts, progressOf } from '../../../../src/lifecycle/progress/progress.ts';

export interface ShownProgress {
  status: ProgressFacts['status'];
  percent: number;
  step: number;
  total_steps: number;
}

/** In percent. The rounding of the percentage can hide a step with a smaller share. */
const visibleShare = 2.1;

/** Returns where the current step ends on the progress bar, and its width, in percent. */
function placeCurrentStep(facts: ProgressFacts): { end: number; width: number } {
  const percentIf = (status: 'done' | 'pending') => {
    const currentStep = facts.steps.find((step) => step.status !== 'done' && step.status !== 'skipped');
    const steps = facts.steps.map((step) => (step === currentStep ? { ...step, status, started_at: null } : step));
    return progressOf({ ...facts, steps, percent: 0 }).percent;
  };
  return { end: percentIf('done'), width: percentIf('done') - percentIf('pending') };
}

export function createWatcher() {
  let lastShown: ShownProgress | undefined;
  let wasFailing = false;
  return {
    check(shown: ShownProgress, facts: ProgressFacts): void {
      const fail = (violation: string) => {
        throw new Error(`${violation}: ${JSON.stringify({ last: lastShown, shown })}`);
      };
      if (lastShown && shown.percent < lastShown.percent) fail('percent went backwards');
      if (lastShown && shown.step < lastShown.step) fail('step went backwards');
      if (lastShown && shown.total_steps !== lastShown.total_steps) fail('the number of steps changed');
      const isFailing = facts.steps.some((step) => step.ordinal === shown.step && step.error !== null);
      if (lastShown?.step === shown.step && wasFailing && isFailing && shown.percent > lastShown.percent)
        fail('percent advanced while the step failed');
      wasFailing = isFailing;
      if (shown.status === 'succeeded') {
        if (shown.percent !== 100) fail('succeeded with less than 100 percent');
      } else {
        if (!(shown.percent >= 0 && shown.percent < 100)) fail('100 percent before the operation succeeded');
        const { end, width } = placeCurrentStep(facts);
        const hasOpenStep = facts.steps.some((step) => step.status !== 'done' && step.status !== 'skipped');
        if (hasOpenStep && shown.percent > end) fail(`beyond the end of the current step, ${end}`);
        if (hasOpenStep && width > visibleShare && end < 99 && shown.percent >= end)
          fail(`at the end of the current step, ${end}, before the step ended`);
      }
      lastShown = shown;
    },
  };
}
