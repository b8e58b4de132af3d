/** The geometry and the description of the boot chart, and the steps of the budget line. Pure. */
import { type DurationScale, placeOf, scaleOver, secondsAt } from '../../../../src/base/duration-scale.ts';
import type { BootPhase, BootSample } from '../../../../src/contract/supervision/boots.ts';
import { formatSeconds } from '../../../../src/lifecycle/boots/what-if-words.ts';

export const scaleOf = ({ samples, budget_seconds }: Pick<BootPhase, 'samples' | 'budget_seconds'>): DurationScale =>
  scaleOver([...samples.map(({ seconds }) => seconds), budget_seconds]);

export const outcomes = ['completed', 'late', 'timed_out', 'cancelled'] as const;
export type Outcome = (typeof outcomes)[number];

export interface Bin {
  from: number;
  to: number;
  counts: Record<Outcome, number>;
  total: number;
}

const binCount = 36;

export function binsOf(samples: readonly Pick<BootSample, 'seconds' | 'outcome'>[], scale: DurationScale): Bin[] {
  const bins = Array.from({ length: binCount }, (_, i): Bin => {
    const counts = { completed: 0, late: 0, timed_out: 0, cancelled: 0 };
    return { from: secondsAt(i / binCount, scale), to: secondsAt((i + 1) / binCount, scale), counts, total: 0 };
  });
  for (const { seconds, outcome } of samples) {
    const bin = bins[Math.min(binCount - 1, Math.floor(placeOf(seconds, scale) * binCount))];
    if (!bin) continue;
    bin.counts[outcome]++;
    bin.total++;
  }
  return bins;
}

interface Drawing {
  width: number;
  height: number;
  scale: DurationScale;
}

type Step = BootPhase['survival'][number];
type Height = 'share' | 'low' | 'high';

/**
 * The path of a step function: flat until the next step, then down. The last step extends to the
 * right edge.
 */
function stepPath(steps: readonly Step[], bound: Height, { width, height, scale }: Drawing): string {
  const x = (seconds: number) => (placeOf(seconds, scale) * width).toFixed(1);
  const y = (share: number) => ((1 - share) * height).toFixed(1);
  return `${steps.map((step) => `H${x(step.seconds)}V${y(step[bound])}`).join('')}H${width}`;
}

export const curvePath = (steps: readonly Step[], drawing: Drawing): string =>
  `M0,0${stepPath(steps, 'share', drawing)}`;

/** The path runs along the upper bound and back along the lower bound. */
export function bandPath(steps: readonly Step[], drawing: Drawing): string {
  const { width, height, scale } = drawing;
  const x = (seconds: number) => (placeOf(seconds, scale) * width).toFixed(1);
  const y = (share: number) => ((1 - share) * height).toFixed(1);
  const back = steps
    .map((step, at) => `V${y(step.low)}H${x(step.seconds)}${at === 0 ? 'V0' : ''}`)
    .toReversed()
    .join('');
  return `M0,0${stepPath(steps, 'high', drawing)}${back}Z`;
}

/** Describes the curve to screen readers. */
export function curveWords({ p50_seconds, p99_seconds }: Pick<BootPhase, 'p50_seconds' | 'p99_seconds'>): string {
  const quantiles = [
    p50_seconds !== null && `half arrived within ${formatSeconds(p50_seconds)}`,
    p99_seconds !== null && `99 of 100 within ${formatSeconds(p99_seconds)}`,
  ].filter(Boolean);
  return `The share of boots still running: ${quantiles.join(', ') || 'none has arrived yet'}`;
}

/** The rounding step: tenths below ten seconds, two significant digits above. */
const stepAt = (seconds: number): number => 10 ** Math.max(-1, Math.floor(Math.log10(seconds)) - 1);

export function tidySeconds(seconds: number): number {
  const step = stepAt(seconds);
  return Number((Math.round(seconds / step) * step).toFixed(1));
}

/** Moves a budget by steps, always to a round number. */
export function nudge(seconds: number, steps: number): number {
  // From 100 the steps lead down to 99 and up to 110.
  const step = stepAt(steps < 0 ? seconds * 0.999 : seconds);
  const from = steps < 0 ? Math.ceil(seconds / step - 1e-9) : Math.floor(seconds / step + 1e-9);
  return Number(Math.max(step, (from + steps) * step).toFixed(1));
}
