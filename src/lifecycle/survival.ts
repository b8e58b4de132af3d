/** What recorded boots say about how long one takes, those included of which only a lower bound is known (Kaplan–Meier). Pure. */
import type { SampleOutcome } from './boot-samples.ts';

export interface TimedBoot {
  seconds: number;
  outcome: SampleOutcome;
}

/** From `seconds` on, this share of boots is still on its way. */
export interface SurvivalStep {
  seconds: number;
  share: number;
}

/** It came, however late; of the others we only know that they had not come by then. */
export const arrived = ({ outcome }: Pick<TimedBoot, 'outcome'>): boolean =>
  outcome === 'completed' || outcome === 'late';

/** Steps down where boots arrived; begins at one and ends with the share that never came within what was watched. */
export function survivalCurve(boots: readonly TimedBoot[]): SurvivalStep[] {
  const ordered = boots.toSorted((a, b) => a.seconds - b.seconds);
  const steps: SurvivalStep[] = [{ seconds: 0, share: 1 }];
  let share = 1;
  let at = 0;
  while (at < ordered.length) {
    const seconds = ordered[at]?.seconds ?? 0;
    const watched = ordered.length - at;
    let arrivals = 0;
    for (; at < ordered.length && ordered[at]?.seconds === seconds; at++)
      if (arrived(ordered[at] ?? { outcome: 'cancelled' })) arrivals++;
    if (arrivals === 0) continue;
    share *= 1 - arrivals / watched;
    steps.push({ seconds, share });
  }
  return steps;
}

/** Of the boots that complete, `quantile` have by then; null where none has. */
export function quantileOf(curve: readonly SurvivalStep[], quantile: number): number | null {
  const end = curve.at(-1)?.share ?? 1;
  if (end >= 1) return null;
  const reached = curve.find(({ share }) => (share - end) / (1 - end) <= 1 - quantile + 1e-9);
  return reached?.seconds ?? null;
}
