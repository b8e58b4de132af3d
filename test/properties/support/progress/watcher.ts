/** Somebody who looks at an operation after everything that happens, and complains of what must never be. */
import { type ProgressFacts, progressOf } from '../../../../src/lifecycle/progress/progress.ts';

export interface Seen {
  status: ProgressFacts['status'];
  percent: number;
  step: number;
  total_steps: number;
}

/** A step of less than this share of the whole is no wider than what is rounded away. */
const visibleShare = 2.1;

/** Where the present step ends on the bar, and how wide it is. */
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
    look(seen: Seen, facts: ProgressFacts): void {
      const complain = (what: string) => {
        throw new Error(`${what}: ${JSON.stringify({ last, seen })}`);
      };
      if (last && seen.percent < last.percent) complain('percent went backwards');
      if (last && seen.step < last.step) complain('step went backwards');
      if (last && seen.total_steps !== last.total_steps) complain('the plan changed');
      if (seen.status === 'succeeded') {
        if (seen.percent !== 100) complain('it succeeded and is not whole');
      } else {
        if (!(seen.percent >= 0 && seen.percent < 100)) complain('it says to be whole before its end');
        const { end, width } = endOfStep(facts);
        const isAnyOpen = facts.steps.some((step) => step.status !== 'done' && step.status !== 'skipped');
        if (isAnyOpen && seen.percent > end) complain(`it is beyond the end of its step, ${end}`);
        if (isAnyOpen && width > visibleShare && end < 99 && seen.percent >= end)
          complain(`its step has reached its end, ${end}, before it ended`);
      }
      last = seen;
    },
  };
}
