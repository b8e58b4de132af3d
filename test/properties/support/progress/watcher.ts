/** Checks the shown progress of an operation after every event. */
import { type ProgressFacts, progressOf } from '../../../../src/lifecycle/progress/progress.ts';

export interface Seen {
  status: ProgressFacts['status'];
  percent: number;
  step: number;
  total_steps: number;
}

/** Steps of a smaller share disappear by rounding. */
const visibleShare = 2.1;

/** The end of the present step on the bar, and its width. */
function endOfStep(facts: ProgressFacts): { end: number; width: number } {
  const at = (over: 'done' | 'pending') => {
    const current = facts.steps.find((step) => step.status !== 'done' && step.status !== 'skipped');
    const steps = facts.steps.map((step) => (step === current ? { ...step, status: over, started_at: null } : step));
    return progressOf({ ...facts, steps, percent: 0 }).percent;
  };
  return { end: at('done'), width: at('done') - at('pending') };
}

export function createWatcher() {
  let last: Seen | undefined;
  return {
    check(seen: Seen, facts: ProgressFacts): void {
      const complain = (what: string) => {
        throw new Error(`${what}: ${JSON.stringify({ last, seen })}`);
      };
      if (last && seen.percent < last.percent) complain('percent went backwards');
      if (last && seen.step < last.step) complain('step went backwards');
      if (last && seen.total_steps !== last.total_steps) complain('the plan changed');
      if (seen.status === 'succeeded') {
        if (seen.percent !== 100) complain('succeeded with less than 100 percent');
      } else {
        if (!(seen.percent >= 0 && seen.percent < 100)) complain('100 percent before its end');
        const { end, width } = endOfStep(facts);
        const isAnyOpen = facts.steps.some((step) => step.status !== 'done' && step.status !== 'skipped');
        if (isAnyOpen && seen.percent > end) complain(`beyond the end of its step, ${end}`);
        if (isAnyOpen && width > visibleShare && end < 99 && seen.percent >= end)
          complain(`at the end of its step, ${end}, before the step ended`);
      }
      last = seen;
    },
  };
}
